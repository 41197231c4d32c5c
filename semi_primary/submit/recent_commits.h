// The parts of the COMMITs of the last minute, and how long the slowest hundredth took at least: of psp.status. Pure; one owner;
// times are monotonic microseconds.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "semi_primary/front/commit_timing.h"

namespace psp::sp {

class RecentCommits {
 public:
  void Add(const CommitParts& parts, std::int64_t now_us) {
    Slot& slot = slots_[static_cast<std::size_t>(Number(now_us)) % kSlots];
    if (slot.number != Number(now_us)) slot = {.number = Number(now_us), .sums = {}, .counts = {}};
    ++slot.sums.commits;
    slot.sums.parts += parts;
    ++slot.counts[Bucket(parts.Whole())];
  }

  // Of the last 60 to 70 seconds.
  CommitSums Sums(std::int64_t now_us) const {
    CommitSums sums;
    Counts counts{};
    for (const Slot& slot : slots_) {
      if (slot.number + static_cast<std::int64_t>(kSlots) <= Number(now_us)) continue;
      sums.commits += slot.sums.commits;
      sums.parts += slot.sums.parts;
      for (std::size_t i = 0; i < kBuckets; ++i) counts[i] += slot.counts[i];
    }
    std::int64_t slower = sums.commits / 100;  // so many may be slower
    std::size_t bucket = kBuckets - 1;
    while (bucket > 0 && counts[bucket] <= slower) slower -= counts[bucket--];
    sums.p99_us = sums.commits == 0 ? 0 : EndOf(bucket);
    return sums;
  }

 private:
  // Eight for each doubling of time, so a bucket's end is an eighth too large at most. The last one has all above two minutes.
  static constexpr std::size_t kEighths = 8;
  static constexpr std::size_t kBuckets = 25 * kEighths;
  using Counts = std::array<std::int64_t, kBuckets>;
  static std::size_t Bucket(std::int64_t us) {
    const auto time = static_cast<std::uint64_t>(std::max<std::int64_t>(us, 0));
    if (time < kEighths) return time;
    const auto shift = static_cast<std::size_t>(std::bit_width(time)) - 4;
    return std::min(shift * kEighths + (time >> shift), kBuckets - 1);
  }
  // The time at which the next one begins.
  static std::int64_t EndOf(std::size_t bucket) {
    if (bucket < kEighths) return static_cast<std::int64_t>(bucket) + 1;
    const std::size_t shift = bucket / kEighths - 1;
    return static_cast<std::int64_t>((bucket % kEighths + kEighths + 1) << shift);
  }

  static constexpr std::int64_t kSlotUs = 10'000'000;
  static constexpr std::size_t kSlots = 7;
  struct Slot {
    std::int64_t number = 0;
    CommitSums sums{};
    Counts counts{};
  };
  static std::int64_t Number(std::int64_t now_us) { return now_us / kSlotUs; }

  std::array<Slot, kSlots> slots_{};
};

}  // namespace psp::sp
