// Steps from the main thread to the apply worker. Thread-safe.
//
// Its bound is the primary's: at most stream_bytes_max are under way to a semi-primary that has not reported
// them as applied.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <stop_token>
#include <vector>

#include "semi_primary/apply/pace.h"
#include "semi_primary/apply/types.h"

namespace psp::sp {

class ApplyInbox {
 public:
  struct Limits {
    std::size_t transactions_max = 256;
    std::size_t bytes_max = 16 << 20;
    Pace::Limits pace = {};
  };

  explicit ApplyInbox(Limits limits) : limits_(limits), pace_(limits.pace) {}

  void Push(ApplyStep step);
  // What waits, and what comes soon, is wanted as early as possible.
  void Hurry();
  // Of what waits.
  std::size_t bytes() const {
    const std::lock_guard lock(mutex_);
    return waiting_bytes_;
  }

  // Waits for steps to apply together: at least one, up to the limits, as pace.h says. Empty when `deadline_us`
  // (monotonic) has passed or stop was requested.
  std::vector<ApplyStep> TakeSteps(std::stop_token stop, std::int64_t deadline_us);

 private:
  struct Waiting {
    ApplyStep step;
    std::int64_t since_us = 0;
  };
  // Under mutex_:
  std::int64_t TakeAt(std::int64_t now_us) const;
  std::vector<ApplyStep> Take();
  void Count(const ApplyStep& step, int sign);

  const Limits limits_;
  mutable std::mutex mutex_;
  // Guarded by mutex_:
  Pace pace_;
  std::condition_variable_any changed_;
  std::deque<Waiting> waiting_;
  std::size_t waiting_transactions_ = 0;
  std::size_t waiting_bytes_ = 0;
  int waiting_with_rows_ = 0;  // steps with something else than own markers
  int waiting_at_once_ = 0;    // steps that wait for no company
};

}  // namespace psp::sp
