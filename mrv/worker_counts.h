// What the workers of this process have done, for its metrics. Any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace psp::mrv {

inline constexpr std::array<std::string_view, 3> kWorkers = {"status", "adjust", "balance"};

// Of all runners of one kind.
struct WorkerCounts {
  std::atomic<std::uint64_t> rounds = 0;
  std::atomic<std::uint64_t> changes = 0;  // of values
  std::atomic<std::uint64_t> conflicts =
      0;  // statements that met another transaction: tried again in a later round
  std::atomic<std::uint64_t> failures = 0;  // statements that failed for another reason
};

// `worker`: one of kWorkers; others share the first one's.
inline WorkerCounts& CountsOf(std::string_view worker) {
  static std::array<WorkerCounts, kWorkers.size()> counts;
  std::size_t i = 0;
  while (i + 1 < kWorkers.size() && kWorkers.at(i) != worker) ++i;
  return counts.at(kWorkers.at(i) == worker ? i : 0);
}

// Reports of values that were dropped, since too many were reported in a window.
inline std::atomic<std::uint64_t>& DroppedReports() {
  static std::atomic<std::uint64_t> dropped = 0;
  return dropped;
}

}  // namespace psp::mrv
