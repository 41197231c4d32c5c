// From when on the next batch may go: a transaction waits a small part of its own semi-primary's round trip for others, so that
// one statement and one flush decide them together, and goes with the first whose wait is over. docs/decisions/41.
// Pure; one thread; time (monotonic microseconds) is an argument.
//
// Nobody waits where no other transaction is expected meanwhile, as when a single client commits one after the other.
#pragma once

#include <cstdint>

#include "common/ids.h"
#include "primary/certify/round_trips.h"

namespace psp::primary {

class BatchTiming {
 public:
  // The round trips must outlive it. Transactions of a semi-primary whose round trip is not known do not wait.
  BatchTiming(std::int64_t wait_max_us, const RoundTrips& round_trips)
      : wait_max_us_(wait_max_us), round_trips_(round_trips) {}

  // A transaction has come. Are others ready, it can make the batch go earlier, not later.
  void OnArrival(SpId sp_id, bool others_are_ready, std::int64_t now_us);

  // From when on the next batch may go.
  std::int64_t may_go_us() const { return may_go_us_; }

 private:
  std::int64_t WaitOf(SpId sp_id) const;

  const std::int64_t wait_max_us_;
  const RoundTrips& round_trips_;
  std::int64_t last_arrival_us_ = 0;
  std::int64_t gap_us_ = 200'000;  // between two arrivals: a mean in which the last ones count most
  std::int64_t may_go_us_ = 0;
};

}  // namespace psp::primary
