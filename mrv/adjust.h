// How many records a value should have, from what its transactions have met (thesis, section 4.3.3).
//
// Pure: no database, no clock. Nothing is remembered from one decision to the next, as the thesis wants it:
// all that is known of a value is its last window of outcomes and the records it has.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace psp::mrv {

enum class AdjustStrategy { kNone, kBinary, kLinear, kQuadratic };

// "none", "binary", "linear" or "quadratic", as psp_mrv.columns has it; anything else is kNone.
AdjustStrategy AdjustStrategyOf(std::string_view name);

// The parameters of a column, with the thesis's names.
struct AdjustParameters {
  AdjustStrategy strategy = AdjustStrategy::kLinear;
  std::int32_t nr_min = 1;
  std::int32_t nr_max = 64;
  double ar_goal = 0.05;  // above it records are added
  double ar_min = 0.01;   // below it they are removed
  // Nothing: response time is not looked at. Without rt_min_ms it is half of the goal.
  std::optional<double> rt_goal_ms{};
  std::optional<double> rt_min_ms{};
  double min_average_amount_per_record = 0;  // 0: any amount
};

// What the transactions of one value have met in a window.
struct Observed {
  std::int64_t commits = 0;
  std::int64_t aborts = 0;
  std::optional<double> response_ms{};  // mean; nothing: not measured
  double lock_waiters = 0;              // mean number of transactions that waited for a row of the value
};

// The value as it stands.
struct RecordSet {
  std::int32_t records = 1;
  // Above the lower bound. Nothing: there is no bound, so no subtraction ever needs a second record, and
  // min_average_amount_per_record has no meaning.
  std::optional<double> amount{};
};

// Fewer aborts than this in a window say nothing about a value: one collision in a quiet hour must not make
// it slower to read.
inline constexpr std::int64_t kDefaultAbortsMin = 3;
// And as many waiting transactions, in the mean of the window's samples.
inline constexpr double kLockWaitersMin = 0.2;

// aborts / (commits + aborts); 0 when there was none of either.
double AbortRate(const Observed& observed);

// The share of waiting transactions among all at the value: if one waits, every record is locked by another.
// It replaces the abort rate where transactions wait instead of aborting (READ COMMITTED, plain PostgreSQL),
// and needs no report of a client. A long queue is seen in part only (psp_mrv.lock_waits), but never as
// empty.
double WaitRate(const Observed& observed, std::int32_t records);

// Algorithms 7, 8 and 9: the number of records to add, or to remove when negative. Fractions are dropped. For
// the removal the thesis prints `max(-(1 + nr * ar), nr_max - nr)`, which would add records. It means nr_min.
std::int32_t ChangeByRate(AdjustStrategy strategy, double rate, std::int32_t records, std::int32_t nr_min,
                          std::int32_t nr_max, double goal, double min);

// The change of a value's records, 0 for none:
// - More records when the abort rate or the wait rate is above ar_goal, or the response time above
//   rt_goal_ms. The strategy gets the largest of these rates; of the response time, the part that is above
//   the goal.
// - Fewer when all of them are below ar_min and rt_min_ms.
// - The average amount of a record stays at least min_average_amount_per_record. So records are added up to
//   that limit, and removed (down to nr_min) when the amount has fallen below it. The result is always within
//   nr_min … nr_max, also for a value that was outside.
std::int32_t DecideChange(const AdjustParameters& parameters, const Observed& observed, const RecordSet& set,
                          std::int64_t aborts_min = kDefaultAbortsMin);

// Whether a value of so many records might change at all. Asked before its amount is read, which costs a
// query.
bool MayChange(const AdjustParameters& parameters, const Observed& observed, std::int32_t records,
               std::int64_t aborts_min = kDefaultAbortsMin);

// Whether nothing at all was reported of the value in the window.
bool IsAtRest(const Observed& observed);

// A change that is so many windows in the future was made before the server's clock was set back.
inline constexpr std::int64_t kClockWasSetBackWindows = 10;

// Whether a window tells about the records as they are since `changed_us`: at most a quarter of it may be
// from before. All in microseconds of one clock.
bool IsFresh(std::int64_t window_began_us, std::int64_t window_ended_us,
             std::optional<std::int64_t> changed_us);

}  // namespace psp::mrv
