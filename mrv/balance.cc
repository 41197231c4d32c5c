#include "mrv/balance.h"

#include <algorithm>
#include <cmath>

namespace psp::mrv {

BalanceStrategy BalanceStrategyOf(std::string_view name) {
  if (name == "all") return BalanceStrategy::kAll;
  if (name == "random") return BalanceStrategy::kRandom;
  if (name == "minmax") return BalanceStrategy::kMinAndMax;
  return BalanceStrategy::kNone;
}

bool IsUnevennessHarmful(const Amounts& amounts, bool is_bounded, std::optional<double> record_max) {
  if (is_bounded) return true;
  return record_max && std::max(std::abs(amounts.smallest), std::abs(amounts.largest)) > *record_max / 2;
}

bool IsUneven(const Amounts& amounts, double tolerance) {
  if (amounts.records < 2) return false;
  const double apart = amounts.largest - amounts.smallest;
  const double mean = std::abs(amounts.total) / amounts.records;
  // 1.5: amounts have been through double, and two units apart must count as such.
  return apart > tolerance * mean && apart > 1.5 * amounts.unit;
}

std::int32_t BalanceSteps(BalanceStrategy strategy, const Amounts& amounts, double tolerance) {
  if (strategy == BalanceStrategy::kNone || !IsUneven(amounts, tolerance)) return 0;
  if (strategy == BalanceStrategy::kAll) return 1;
  return std::max(amounts.records / 2, 1);
}

bool MayContinue(BalanceStrategy strategy, std::int32_t records_written) {
  return strategy == BalanceStrategy::kRandom || records_written > 0;
}

}  // namespace psp::mrv
