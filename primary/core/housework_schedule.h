// When the housekeeper gets work, and which. Pure; one thread; times are monotonic microseconds.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

namespace psp::primary {

class HouseworkSchedule {
 public:
  struct Intervals {
    std::int64_t tick_us = 0;        // acknowledgements, the registry
    std::int64_t truncation_us = 0;  // of the log
    std::int64_t sweep_us = 0;       // old decisions, deleted rows and guards
  };
  struct Due {
    bool truncate_log = false;
    bool sweep = false;
  };

  explicit HouseworkSchedule(const Intervals& intervals) : intervals_(intervals) {}

  // What is due now; it counts as done. Nothing between two ticks.
  std::optional<Due> TakeDue(std::int64_t now_us) {
    if (now_us < next_tick_us_) return std::nullopt;
    next_tick_us_ = now_us + intervals_.tick_us;
    const Due due{now_us >= next_truncation_us_, now_us >= next_sweep_us_};
    if (due.truncate_log) next_truncation_us_ = now_us + intervals_.truncation_us;
    if (due.sweep) next_sweep_us_ = now_us + intervals_.sweep_us;
    return due;
  }

  // One piece of work does not remove everything: the next piece follows soon.
  void OnReport(bool more_to_truncate, bool more_to_sweep, std::int64_t now_us) {
    if (more_to_truncate) next_truncation_us_ = now_us + kNextPieceUs;
    if (more_to_sweep) next_sweep_us_ = now_us + kNextPieceUs;
    if (more_to_truncate || more_to_sweep) next_tick_us_ = std::min(next_tick_us_, now_us + kNextPieceUs);
  }

 private:
  static constexpr std::int64_t kNextPieceUs = 100'000;  // batches come in between

  const Intervals intervals_;
  std::int64_t next_tick_us_ = 0;
  std::int64_t next_truncation_us_ = 0;
  std::int64_t next_sweep_us_ = 0;
};

}  // namespace psp::primary
