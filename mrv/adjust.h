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

// The share of transactions that waited, of all that were at the value: when somebody waits every record has
// one that holds it. It plays the part of the abort rate where waiting takes the place of aborting (READ
// COMMITTED, plain PostgreSQL), and it needs no report of any client. Long queues are seen in part only (see
// psp_mrv.lock_waits), but never as none.
double WaitRate(const Observed& observed, std::int32_t records);

// Algorithms 7, 8 and 9: the number of records to add, or to remove when negative. Fractions are dropped. The
// thesis prints `max(-(1 + nr * ar), nr_max - nr)` where records are removed, which would add some; nr_min is
// meant, and taken here.
std::int32_t ChangeByRate(AdjustStrategy strategy, double rate, std::int32_t records, std::int32_t nr_min,
                          std::int32_t nr_max, double goal, double min);

// The change of a value's records, 0 for none, by all that is known:
// - More records when the abort rate or the wait rate is above ar_goal, or response time above rt_goal_ms; by
//   the strategy, fed with the largest of those rates. For response time that is the part of it which is
//   above the goal.
// - Fewer when all of them are below ar_min and rt_min_ms.
// - The average amount of a record stays at least min_average_amount_per_record: records are added only so
//   far, and removed, down to nr_min, when the amount has fallen below it.
// The result never leads out of nr_min … nr_max, except that records outside are brought in.
std::int32_t DecideChange(const AdjustParameters& parameters, const Observed& observed, const RecordSet& set,
                          std::int64_t aborts_min = kDefaultAbortsMin);

// Whether a value of so many records might change at all, without its amount being known, which costs a
// query.
bool MayChange(const AdjustParameters& parameters, const Observed& observed, std::int32_t records,
               std::int64_t aborts_min = kDefaultAbortsMin);

// Whether the window has heard nothing at all of the value.
bool IsAtRest(const Observed& observed);

// Whether a window tells about the records as they are since `changed_us`: at most a quarter of it may be
// from before. All in microseconds of one clock.
bool IsFresh(std::int64_t window_began_us, std::int64_t window_ended_us,
             std::optional<std::int64_t> changed_us);

}  // namespace psp::mrv
