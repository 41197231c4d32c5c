// Removes what has become old, a piece at a time: old decisions (psp.tx_log), deleted rows and guards that no
// snapshot lacks, requests that are forgotten, and rows of dropped tables (psp.data). A value: it knows how far it has come, and is copied before a transaction that
// may fail.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/ids.h"
#include "common/pg_session.h"

namespace psp::primary {

class Sweeper {
 public:
  struct Retention {
    std::int64_t tx_log_s = 0;
    std::int64_t deleted_s = 0;  // of deleted rows and guards
  };

  explicit Sweeper(Retention retention) : retention_(retention) {}

  // Moves psp.log_start.clock_ms on by what has passed since the last call.
  void AdvanceClock(pqxx::transaction_base& tx);
  // The next piece of each. True: there is more.
  bool Sweep(pqxx::transaction_base& tx);

 private:
  bool PurgeDecisions(pqxx::transaction_base& tx);
  bool CollectDeleted(pqxx::transaction_base& tx);
  bool ExpireRequests(pqxx::transaction_base& tx);

  Retention retention_;
  std::optional<std::int64_t> clock_read_us_;  // of the monotonic clock, at the last call
  // All decisions before this time have been checked since the log began at truncated_t_. Those that are still
  // there stay until the log begins later.
  std::int64_t purged_upto_ms_ = INT64_MIN;
  GlobalT truncated_t_ = -1;
  // Deleted keys are being collected up to this number, or have been when `collecting_` is false.
  GlobalT collected_t_ = -1;
  bool collecting_ = false;
  RowKey position_;
  // All requests have been looked at when this generation was the newest.
  std::int32_t looked_at_generation_ = 0;
  std::string request_position_;  // the key up to which they have been looked at since
};

}  // namespace psp::primary
