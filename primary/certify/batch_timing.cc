#include "primary/certify/batch_timing.h"

#include <algorithm>

namespace psp::primary {
namespace {

constexpr std::int64_t kPartOfRoundTrip = 15;
constexpr std::int64_t kWaitMinUs = 1'000;   // for less the daemon does not wake up
constexpr std::int64_t kGapMaxUs = 200'000;  // a night does not count for more
constexpr std::int64_t kGapsInMean = 8;
// It must be likely enough that somebody comes: so many times the wait is the mean gap at most.
constexpr std::int64_t kGapInWaits = 5;

}  // namespace

void BatchTiming::OnArrival(SpId sp_id, bool others_are_ready, std::int64_t now_us) {
  gap_us_ += (std::min(now_us - last_arrival_us_, kGapMaxUs) - gap_us_) / kGapsInMean;
  last_arrival_us_ = now_us;
  const std::int64_t may_go_us = now_us + WaitOf(sp_id);
  may_go_us_ = others_are_ready ? std::min(may_go_us_, may_go_us) : may_go_us;
}

std::int64_t BatchTiming::WaitOf(SpId sp_id) const {
  const std::int64_t wait_us = std::min(wait_max_us_, round_trips_.Of(sp_id) / kPartOfRoundTrip);
  return wait_us >= kWaitMinUs && gap_us_ <= wait_us * kGapInWaits ? wait_us : 0;
}

}  // namespace psp::primary
