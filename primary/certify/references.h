// Which keys that foreign keys refer to were shared and ended lately, and by which semi-primaries. A transaction that shares a key must
// have seen who ended it last; one that ends it, or has read all that refers to it, must have seen all who share it.
// Pure; one thread.
//
// This is not stored: it matters only as long as somebody's snapshot can lack it. Of each kind the newest are remembered. Whose snapshot is
// older than that, or than this daemon's start, has lost: needlessly perhaps, but it may run again.
//
// Keys are remembered by their hashes: a collision costs a needless abort.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>
#include <vector>

#include "common/conflict.h"
#include "primary/certify/types.h"

namespace psp::primary {

class References {
 public:
  // `remembered_max`: uses of each of the two kinds.
  References(GlobalT start_t, std::size_t remembered_max)
      : shared_(start_t, remembered_max), ended_(start_t, remembered_max) {}

  // A transaction has committed.
  void Note(const CertifyRequest& request, GlobalT global_t);

  // What the transaction has lost on. None of its keys is used by one that is in flight (scheduler.h).
  std::optional<Conflict> Lost(const CertifyRequest& request) const;

 private:
  struct User {
    GlobalT global_t = 0;
    SpId sp_id = 0;
  };

  // The uses of one kind.
  class Uses {
   public:
    Uses(GlobalT start_t, std::size_t remembered_max)
        : remembered_max_(remembered_max), forgotten_t_(start_t) {}

    // `watermark`: of the user. Its semi-primary had applied all up to there, so each snapshot that has this use has its uses up to there, too.
    void Note(std::uint64_t key, const User& user, GlobalT watermark);
    // The newest user that the snapshot lacks; sp_id is 0 where it may be forgotten.
    std::optional<User> Missing(std::uint64_t key, const SnapshotView& snapshot) const;

   private:
    struct Noted {
      GlobalT global_t = 0;
      std::uint64_t key = 0;
    };

    void ForgetOldest();

    const std::size_t remembered_max_;
    GlobalT forgotten_t_;
    // Of each semi-primary the newest, and those that it had not applied by then.
    std::unordered_map<std::uint64_t, std::vector<User>> users_;
    std::deque<Noted> noted_;  // in order
  };

  Uses shared_;
  Uses ended_;
};

}  // namespace psp::primary
