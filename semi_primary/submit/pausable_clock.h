// A clock for limits that stands still while the primary is away for planned work. Pure; one thread; times are monotonic microseconds.
#pragma once

#include <algorithm>
#include <cstdint>

namespace psp::sp {

class PausableClock {
 public:
  // It goes on by itself at `until_us`.
  void Pause(std::int64_t now_us, std::int64_t until_us) {
    GoOn(now_us);
    from_us_ = now_us;
    until_us_ = until_us;
  }
  void GoOn(std::int64_t now_us) {
    stood_us_ += StandsForUs(now_us);
    from_us_ = until_us_ = 0;
  }

  bool has_stood() const { return until_us_ != 0; }  // since the last GoOn
  bool stands(std::int64_t now_us) const { return now_us < until_us_; }
  std::int64_t Time(std::int64_t now_us) const { return now_us - stood_us_ - StandsForUs(now_us); }

 private:
  std::int64_t StandsForUs(std::int64_t now_us) const {
    return std::max<std::int64_t>(0, std::min(now_us, until_us_) - from_us_);
  }

  std::int64_t from_us_ = 0;
  std::int64_t until_us_ = 0;
  std::int64_t stood_us_ = 0;  // in earlier pauses
};

}  // namespace psp::sp
