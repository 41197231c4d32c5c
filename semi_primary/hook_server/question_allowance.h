// How many outcomes may be asked for at an SP. Any role may ask about any id, and the primary remembers each
// id: without a bound, questions about random ids would fill its tx_log. Pure; one thread.
#pragma once

#include <algorithm>
#include <cstdint>

namespace psp::sp {

class QuestionAllowance {
 public:
  static constexpr std::int64_t kAtOnce = 10'000;  // every client of an SP that was lost, and more
  static constexpr std::int64_t kPerSecond = 20;   // in the long run

  // Whether one more may be asked now.
  bool Allow(std::int64_t now_us) {
    constexpr std::int64_t kUsForEach = 1'000'000 / kPerSecond;
    // The time at which all questions so far would have been allowed one by one, at most kAtOnce of them
    // ahead.
    next_us_ = std::max(next_us_, now_us - kAtOnce * kUsForEach);
    if (next_us_ + kUsForEach > now_us) return false;
    next_us_ += kUsForEach;
    return true;
  }

 private:
  std::int64_t next_us_ = INT64_MIN;
};

}  // namespace psp::sp
