// The parts of the COMMITs of the last minute: of psp.status. Pure; one owner; times are monotonic microseconds.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "semi_primary/front/commit_timing.h"

namespace psp::sp {

class RecentCommits {
 public:
  void Add(const CommitParts& parts, std::int64_t now_us) {
    Slot& slot = slots_[static_cast<std::size_t>(Number(now_us)) % kSlots];
    if (slot.number != Number(now_us)) slot = {.number = Number(now_us), .sums = {}};
    ++slot.sums.commits;
    slot.sums.parts += parts;
  }

  // Of the last 60 to 70 seconds.
  CommitSums Sums(std::int64_t now_us) const {
    CommitSums sums;
    for (const Slot& slot : slots_) {
      if (slot.number + static_cast<std::int64_t>(kSlots) <= Number(now_us)) continue;
      sums.commits += slot.sums.commits;
      sums.parts += slot.sums.parts;
    }
    return sums;
  }

 private:
  static constexpr std::int64_t kSlotUs = 10'000'000;
  static constexpr std::size_t kSlots = 7;
  struct Slot {
    std::int64_t number = 0;
    CommitSums sums{};
  };
  static std::int64_t Number(std::int64_t now_us) { return now_us / kSlotUs; }

  std::array<Slot, kSlots> slots_{};
};

}  // namespace psp::sp
