// Time that never goes back. Wall-clock time is nowhere used for a decision.
#pragma once

#include <chrono>
#include <cstdint>

namespace psp {

inline std::int64_t MonotonicUs() {
  using std::chrono::duration_cast, std::chrono::microseconds, std::chrono::steady_clock;
  return duration_cast<microseconds>(steady_clock::now().time_since_epoch()).count();
}

}  // namespace psp
