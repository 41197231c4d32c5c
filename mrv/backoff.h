// Which values a worker leaves alone because it has lost against others there.
//
// Pure: no database, no clock.
#pragma once

#include <algorithm>
#include <map>

#include "mrv/outcomes.h"

namespace psp::mrv {

// Owned and used by one thread. After the worker's transaction on a value was aborted, the value is passed
// over once, after the next abort twice, then four times and so on. A worker that is far away and loses once
// mostly loses again, and each loss may have cost another transaction something, too.
class Backoff {
 public:
  // So many turns are passed over at most.
  explicit Backoff(int most) : most_(most) {}

  // Whether it is the value's turn; counts as one that was passed over if not.
  bool IsTurn(const ValueId& value) {
    const auto found = lost_.find(value);
    if (found == lost_.end() || found->second.left == 0) return true;
    --found->second.left;
    return false;
  }

  void Lost(const ValueId& value) {
    Entry& entry = lost_[value];
    entry.turns = std::min(std::max(1, 2 * entry.turns), most_);
    entry.left = entry.turns;
  }

  // A transaction on it was committed. The next loss weighs half as much as the last one did.
  void Won(const ValueId& value) {
    const auto found = lost_.find(value);
    if (found == lost_.end()) return;
    found->second = {.turns = found->second.turns / 4, .left = 0};
    if (found->second.turns == 0) lost_.erase(found);
  }

  // The value is gone, or not split any more.
  void Forget(const ValueId& value) { lost_.erase(value); }

 private:
  struct Entry {
    int turns = 0;
    int left = 0;
  };
  const int most_;
  std::map<ValueId, Entry> lost_;
};

}  // namespace psp::mrv
