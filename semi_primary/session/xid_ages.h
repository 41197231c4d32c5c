// Which transactions of a PostgreSQL server began at least so long ago: told by their numbers, not by a clock that may jump. Pure; one
// thread.
#pragma once

#include <cstdint>
#include <deque>

namespace psp::sp {

class XidAges {
 public:
  explicit XidAges(std::int64_t age_us) : age_us_(age_us) {}

  // Transactions with numbers below `next_xid` have begun by now.
  void Note(std::uint64_t next_xid, std::int64_t now_us) {
    if (!notes_.empty() && now_us - notes_.back().at_us < age_us_ / kNotes) return;
    notes_.push_back({now_us, next_xid});
  }

  // All below this number are that old; others may be, too, by a fraction of the age at most. 0: none is known to be.
  std::uint64_t OldBelow(std::int64_t now_us) {
    while (!notes_.empty() && now_us - notes_.front().at_us >= age_us_) {
      old_below_ = notes_.front().next_xid;
      notes_.pop_front();
    }
    return old_below_;
  }

 private:
  static constexpr std::int64_t kNotes = 64;  // that are kept at most
  struct OneNote {
    std::int64_t at_us = 0;
    std::uint64_t next_xid = 0;
  };

  const std::int64_t age_us_;
  std::deque<OneNote> notes_;
  std::uint64_t old_below_ = 0;
};

}  // namespace psp::sp
