#include "primary/core/core_numbers.h"

#include <algorithm>

#include "primary/core/core.h"

namespace psp::primary {

CoreNumbers Core::Numbers(std::int64_t now_us) const {
  CoreNumbers numbers;
  numbers.epoch = epoch_;
  numbers.closed_t = closed_t();
  if (const auto reason = standstill()) {
    numbers.standstill = reason->cause;
    numbers.standstill_us = reason->age_us(now_us);
  }
  numbers.undecided = undecided() + holds_.parked();
  numbers.undecided_bytes = undecided_bytes();
  numbers.recent_bytes = streams_.recent_bytes();
  numbers.holds_tables = holds_.is_active();
  numbers.parked_by_hold = holds_.parked();
  numbers.parked_by_reservation = reservations_.parked();
  numbers.reservations = reservations_.size();
  numbers.log = log_size_;
  numbers.decisions = decisions_;
  for (const auto& [sp_id, registered] : connections_.registry()) {
    if (!registered.released) numbers.semi_primaries.push_back(NumbersOf(registered));
  }
  return numbers;
}

CoreNumbers::SemiPrimary Core::NumbersOf(const RegisteredSp& registered) const {
  const SpId sp_id = registered.sp_id;
  CoreNumbers::SemiPrimary numbers;
  numbers.name = registered.name;
  numbers.is_connected = connections_.RouteOf(sp_id) != nullptr;
  if (registered.acked_t >= 0) numbers.lacks = std::max<GlobalT>(closed_t() - registered.acked_t, 0);
  numbers.rtt_us = round_trips_.Of(sp_id);
  numbers.stream_bytes = streams_.OutstandingBytes(sp_id);
  const auto outcomes = decisions_.outcomes().find(sp_id);
  if (outcomes != decisions_.outcomes().end()) numbers.outcomes = outcomes->second;
  const auto counters = reservations_.counters().find(sp_id);
  if (counters != reservations_.counters().end()) numbers.reservations = counters->second;
  return numbers;
}

}  // namespace psp::primary
