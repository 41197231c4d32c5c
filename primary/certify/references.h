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

#include "common/conflict.h"
#include "primary/certify/newest_commits.h"
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
  // The uses of one kind.
  class Uses {
   public:
    Uses(GlobalT start_t, std::size_t remembered_max)
        : remembered_max_(remembered_max), forgotten_t_(start_t) {}

    void Note(std::uint64_t key, const Commit& user, GlobalT watermark);
    // The newest user that the snapshot lacks; sp_id is 0 where it may be forgotten.
    std::optional<Commit> Missing(std::uint64_t key, const SnapshotView& snapshot) const;

   private:
    struct Noted {
      Commit user;
      std::uint64_t key = 0;
    };

    void ForgetOldest();

    const std::size_t remembered_max_;
    GlobalT forgotten_t_;
    std::unordered_map<std::uint64_t, NewestCommits> users_;
    std::deque<Noted> noted_;  // in order
  };

  Uses shared_;
  Uses ended_;
};

}  // namespace psp::primary
