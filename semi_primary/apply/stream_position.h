// A semi-primary's position in the primary's stream. Pure; one thread.
//
// Invariant: everything <= position() has been taken in, in order and without a gap; a message is taken only
// when it begins exactly there. Anything else is either old (dropped) or a gap (request the stream from position()).
#pragma once

#include "common/ids.h"

namespace psp::sp {

class StreamPosition {
 public:
  enum class Verdict { kTake, kOld, kGap };

  explicit StreamPosition(GlobalT position = 0) : position_(position) {}

  // A message that covers (from_t, closed_t]. kTake moves the position.
  Verdict Offer(GlobalT from_t, GlobalT closed_t);
  void Reset(GlobalT position) { position_ = position; }
  GlobalT position() const { return position_; }

 private:
  GlobalT position_;
};

}  // namespace psp::sp
