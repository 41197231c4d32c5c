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

#include "semi_primary/apply/types.h"

namespace psp::sp {

class ApplyInbox {
 public:
  struct Limits {
    std::size_t transactions_max = 256;
    std::size_t bytes_max = 16 << 20;
    std::int64_t lazy_us = 50'000;  // how long own markers alone may wait, so that many move W at once
  };

  explicit ApplyInbox(Limits limits) : limits_(limits) {}

  void Push(ApplyStep step);

  // Waits for steps to apply together: at least one, up to the limits. Empty when `deadline_us` (monotonic)
  // has passed or stop was requested.
  std::vector<ApplyStep> TakeSteps(std::stop_token stop, std::int64_t deadline_us);

 private:
  struct Waiting {
    ApplyStep step;
    std::int64_t since_us = 0;
  };
  bool IsUrgent() const;  // under mutex_

  const Limits limits_;
  std::mutex mutex_;
  // Guarded by mutex_:
  std::condition_variable_any changed_;
  std::deque<Waiting> waiting_;
  std::size_t waiting_transactions_ = 0;
  std::size_t waiting_with_rows_ = 0;  // steps with something else than own markers
};

}  // namespace psp::sp
