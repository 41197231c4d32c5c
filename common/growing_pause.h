// How long to wait between attempts: each time twice as long, up to a limit. Pure.
#pragma once

#include <algorithm>
#include <cstdint>

namespace psp {

class GrowingPause {
 public:
  GrowingPause(std::int64_t min_ms, std::int64_t max_ms)
      : min_ms_(min_ms), max_ms_(max_ms), next_ms_(min_ms) {}

  std::int64_t NextMs() {
    const std::int64_t now_ms = next_ms_;
    next_ms_ = std::min(next_ms_ * 2, max_ms_);
    return now_ms;
  }
  void Reset() { next_ms_ = min_ms_; }

 private:
  const std::int64_t min_ms_;
  const std::int64_t max_ms_;
  std::int64_t next_ms_;
};

}  // namespace psp
