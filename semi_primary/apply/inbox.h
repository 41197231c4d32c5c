// What the main thread hands to the apply worker. Thread-safe.
//
// Nothing bounds it but the primary, which keeps at most a number of bytes under way to a semi-primary that
// has not told that it applied them.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <vector>

#include "common/ids.h"
#include "proto/psp.pb.h"

namespace psp {

struct ApplyTransaction {
  GlobalT global_t = 0;
  TxId tx_id;
  bool own = false;
  std::shared_ptr<const proto::WriteSet> write_set;  // null: an own marker whose rows are not known here
};

// One step of the stream, (previous step's closed_t, closed_t], or a part of the copy for a joining
// semi-primary.
struct ApplyStep {
  std::uint64_t generation = 0;  // the worker drops steps of a stream that it has begun anew since
  GlobalT closed_t = 0;          // for a part of the copy: as of when it is
  std::vector<ApplyTransaction> transactions;
  std::size_t bytes = 0;
  std::shared_ptr<const proto::WriteSet> copied_rows;  // a part of the copy
  bool copy_is_complete = false;
  std::int64_t rows_done = 0;
};

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
  std::vector<ApplyStep> Take(std::stop_token stop, std::int64_t deadline_us);

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

}  // namespace psp
