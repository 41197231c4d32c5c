// Whether the amounts of a value's records should be evened out, and in how many steps (thesis, section
// 4.3.4). The steps themselves are SQL (P_balance in sql/mrv), for which the rows stay where they are locked.
//
// Pure: no database, no clock.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace psp::mrv {

enum class BalanceStrategy {
  kNone,
  kAll,        // one step over all records that nobody holds
  kRandom,     // each step evens out two records at random
  kMinAndMax,  // each step evens out the smallest and the largest
};

// "none", "all", "random" or "minmax", as psp_mrv.columns has it; anything else is kNone.
BalanceStrategy BalanceStrategyOf(std::string_view name);

// The amounts of a value's records, above the lower bound.
struct Amounts {
  std::int32_t records = 1;
  double total = 0;
  double smallest = 0;
  double largest = 0;
  double unit = 0;  // the smallest difference between two amounts: 1 for integers, 0.01 for two digits
};

// Whether an uneven value can do harm. With a lower bound, a subtraction may not find enough in one record.
// Without one, only the largest record can come near the most that a record may hold.
bool IsUnevennessHarmful(const Amounts& amounts, bool is_bounded, std::optional<double> record_max);

// Whether evening out is worth the locks: the largest and the smallest record differ by more than `tolerance`
// times the mean, and by more than one unit, which no division can even out.
bool IsUneven(const Amounts& amounts, double tolerance);

// How many steps, each a transaction, to run on a value now; 0: none. Several small steps are better than a
// large one: transactions with older snapshots cannot write the records that a step has written, while others
// just pass over a locked record. kRandom and kMinAndMax touch each record once on average.
std::int32_t BalanceSteps(BalanceStrategy strategy, const Amounts& amounts, double tolerance);

// Whether to continue after a step that has written so many records. For kMinAndMax no records written means
// that nothing is left to do, or that others hold the records. For kRandom the next pair may be another one.
bool MayContinue(BalanceStrategy strategy, std::int32_t records_written);

}  // namespace psp::mrv
