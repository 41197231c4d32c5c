// Counts values by size, in fixed buckets. A value; one owner.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace psp {

// Of a COMMIT and its parts, in microseconds: from a tenth of a millisecond to the time after which nobody waits any more.
inline constexpr std::array<std::int64_t, 16> kTimeBoundsUs = {
    100,    250,     500,     1'000,   2'500,     5'000,     10'000,    25'000,
    50'000, 100'000, 250'000, 500'000, 1'000'000, 2'500'000, 5'000'000, 10'000'000};
// Of what is done together.
inline constexpr std::array<std::int64_t, 10> kCountBounds = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512};

inline constexpr double kUsPerSecond = 1e6;

class Histogram {
 public:
  // `bounds`: ascending; it must outlive the histogram. A value that equals a bound is in the bucket below it. `per_unit`: by
  // what values are divided when they are shown.
  explicit Histogram(std::span<const std::int64_t> bounds, double per_unit = 1)
      : bounds_(bounds), per_unit_(per_unit), counts_(bounds.size() + 1) {}

  static Histogram OfTimes() { return Histogram(kTimeBoundsUs, kUsPerSecond); }
  static Histogram OfCounts() { return Histogram(kCountBounds); }

  // What is below 0 counts as 0.
  void Add(std::int64_t value) {
    const auto bound = std::ranges::lower_bound(bounds_, value);
    ++counts_[static_cast<std::size_t>(bound - bounds_.begin())];
    sum_ += std::max<std::int64_t>(value, 0);
  }

  std::span<const std::int64_t> bounds() const { return bounds_; }
  // One for each bound, and of what is above the last one.
  const std::vector<std::uint64_t>& counts() const { return counts_; }
  // As shown:
  double Shown(std::int64_t bound) const { return static_cast<double>(bound) / per_unit_; }
  double sum() const { return Shown(sum_); }

 private:
  std::span<const std::int64_t> bounds_;
  double per_unit_;
  std::vector<std::uint64_t> counts_;
  std::int64_t sum_ = 0;
};

}  // namespace psp
