// How long batches of the stream take to apply, and how large they are. The worker writes, any thread reads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <vector>

#include "common/metrics/histogram.h"
#include "semi_primary/apply/types.h"

namespace psp::sp {

struct ApplyNumbers {
  Histogram batch_seconds = Histogram::OfTimes();
  Histogram batch_transactions = Histogram::OfCounts();
  std::uint64_t transactions = 0;  // of the stream: own ones, too
};

// A batch that has begun and fails is not counted: what of it comes again is a part of the next one.
class ApplyMeter {
 public:
  void OnSteps(const std::vector<ApplyStep>& steps, std::int64_t now_us) {
    begun_us_ = now_us;
    transactions_ = 0;
    closed_t_ = 0;
    for (const ApplyStep& step : steps) {
      transactions_ += step.transactions.size();
      closed_t_ = std::max(closed_t_, step.closed_t);
    }
  }
  // Everything up to W is applied.
  void OnProgress(GlobalT watermark, std::int64_t now_us) {
    if (transactions_ == 0 || watermark < closed_t_) return;
    const std::lock_guard lock(mutex_);
    numbers_.batch_seconds.Add(now_us - begun_us_);
    numbers_.batch_transactions.Add(static_cast<std::int64_t>(transactions_));
    numbers_.transactions += transactions_;
    transactions_ = 0;
  }

  ApplyNumbers numbers() const {
    const std::lock_guard lock(mutex_);
    return numbers_;
  }

 private:
  // The worker's:
  std::int64_t begun_us_ = 0;
  std::size_t transactions_ = 0;  // 0: no batch is under way
  GlobalT closed_t_ = 0;

  mutable std::mutex mutex_;
  ApplyNumbers numbers_;  // guarded by mutex_
};

}  // namespace psp::sp
