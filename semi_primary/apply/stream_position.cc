#include "semi_primary/apply/stream_position.h"

namespace psp::sp {

StreamPosition::Verdict StreamPosition::Offer(GlobalT from_t, GlobalT closed_t) {
  if (from_t == position_ && closed_t >= from_t) {
    position_ = closed_t;
    return Verdict::kTake;
  }
  return closed_t <= position_ ? Verdict::kOld : Verdict::kGap;
}

}  // namespace psp::sp
