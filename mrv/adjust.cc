#include "mrv/adjust.h"

#include <algorithm>
#include <cmath>

namespace psp::mrv {
namespace {

// What the window says: the rate for the strategy when records should be added or removed.
struct Pressure {
  bool grow = false;
  bool shrink = false;
  double rate = 0;
};

Pressure Judge(const AdjustParameters& parameters, const Observed& observed, std::int32_t records,
               std::int64_t aborts_min) {
  const double aborts = observed.aborts >= aborts_min ? AbortRate(observed) : 0;
  const double waits = WaitRate(observed, records);
  Pressure pressure;
  pressure.rate = std::max(aborts, waits);
  pressure.grow = pressure.rate > parameters.ar_goal;
  pressure.shrink = pressure.rate < parameters.ar_min;
  if (!observed.response_ms) return pressure;
  const double response_ms = *observed.response_ms;
  if (parameters.rt_goal_ms && response_ms > *parameters.rt_goal_ms) {
    pressure.grow = true;
    pressure.rate = std::max(pressure.rate, 1 - *parameters.rt_goal_ms / response_ms);
  }
  if (parameters.rt_min_ms || parameters.rt_goal_ms) {
    const double min_ms = parameters.rt_min_ms.value_or(parameters.rt_goal_ms.value_or(0) / 2);
    pressure.shrink = pressure.shrink && response_ms < min_ms;
  }
  return pressure;
}

double StepOf(AdjustStrategy strategy, double rate, std::int32_t records) {
  const double share = records * rate;
  switch (strategy) {
    case AdjustStrategy::kNone:
      return 0;
    case AdjustStrategy::kBinary:
      return 1;
    case AdjustStrategy::kLinear:
      return std::floor(1 + share);
    case AdjustStrategy::kQuadratic:
      return std::floor(1 + share * share);
  }
  return 0;
}

std::int32_t Grow(AdjustStrategy strategy, double rate, std::int32_t records, std::int32_t nr_max) {
  if (records >= nr_max) return 0;
  return static_cast<std::int32_t>(
      std::min(StepOf(strategy, rate, records), static_cast<double>(nr_max - records)));
}

std::int32_t Shrink(AdjustStrategy strategy, double rate, std::int32_t records, std::int32_t nr_min) {
  if (records <= nr_min) return 0;
  return static_cast<std::int32_t>(
      std::max(-StepOf(strategy, rate, records), static_cast<double>(nr_min - records)));
}

// How many records the amount is enough for.
std::int32_t MostByAmount(const AdjustParameters& parameters, const RecordSet& set) {
  if (!set.amount || parameters.min_average_amount_per_record <= 0) return parameters.nr_max;
  const double most = std::floor(*set.amount / parameters.min_average_amount_per_record);
  return static_cast<std::int32_t>(
      std::clamp(most, static_cast<double>(parameters.nr_min), static_cast<double>(parameters.nr_max)));
}

}  // namespace

AdjustStrategy AdjustStrategyOf(std::string_view name) {
  if (name == "binary") return AdjustStrategy::kBinary;
  if (name == "linear") return AdjustStrategy::kLinear;
  if (name == "quadratic") return AdjustStrategy::kQuadratic;
  return AdjustStrategy::kNone;
}

double AbortRate(const Observed& observed) {
  const std::int64_t all = observed.commits + observed.aborts;
  return all <= 0 ? 0 : static_cast<double>(observed.aborts) / static_cast<double>(all);
}

double WaitRate(const Observed& observed, std::int32_t records) {
  if (observed.lock_waiters < kLockWaitersMin) return 0;
  return observed.lock_waiters / (observed.lock_waiters + records);
}

std::int32_t ChangeByRate(AdjustStrategy strategy, double rate, std::int32_t records, std::int32_t nr_min,
                          std::int32_t nr_max, double goal, double min) {
  if (rate > goal) return Grow(strategy, rate, records, nr_max);
  if (rate < min) return Shrink(strategy, rate, records, nr_min);
  return 0;
}

std::int32_t DecideChange(const AdjustParameters& parameters, const Observed& observed, const RecordSet& set,
                          std::int64_t aborts_min) {
  if (parameters.strategy == AdjustStrategy::kNone) return 0;
  const std::int32_t most = MostByAmount(parameters, set);
  if (set.records > most) return most - set.records;
  if (set.records < parameters.nr_min) return std::min(parameters.nr_min, most) - set.records;
  const Pressure pressure = Judge(parameters, observed, set.records, aborts_min);
  if (pressure.grow) return Grow(parameters.strategy, pressure.rate, set.records, most);
  if (pressure.shrink) return Shrink(parameters.strategy, pressure.rate, set.records, parameters.nr_min);
  return 0;
}

bool MayChange(const AdjustParameters& parameters, const Observed& observed, std::int32_t records,
               std::int64_t aborts_min) {
  if (parameters.strategy == AdjustStrategy::kNone) return false;
  // More than one: the amount may have fallen below what so many records need.
  if (records > 1 && parameters.min_average_amount_per_record > 0) return true;
  return DecideChange(parameters, observed, {.records = records, .amount = std::nullopt}, aborts_min) != 0;
}

bool IsAtRest(const Observed& observed) {
  return observed.commits == 0 && observed.aborts == 0 && observed.lock_waiters <= 0;
}

bool IsFresh(std::int64_t window_began_us, std::int64_t window_ended_us,
             std::optional<std::int64_t> changed_us) {
  const std::int64_t length_us = window_ended_us - window_began_us;
  if (!changed_us || *changed_us <= window_began_us + length_us / 4) return true;
  return *changed_us > window_ended_us + kClockWasSetBackWindows * length_us;
}

}  // namespace psp::mrv
