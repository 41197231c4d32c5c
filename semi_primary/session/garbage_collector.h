// The thesis's gc: calls the procedures that clean temporary data, now and then. Its own thread and session.
#pragma once

#include <cstdint>
#include <string>
#include <thread>

#include "common/pg_session.h"
#include "semi_primary/session/xid_ages.h"

namespace psp::sp {

class GarbageCollector {
 public:
  struct Options {
    std::string conninfo;
    std::string database;  // psp.this_database() of the one to clean
    std::int64_t interval_ms = 2000;
    std::int64_t running_timeout_ms = 3600000;  // after its begin; then a transaction is aborted
    std::int64_t forget_after_ms = 86400000;    // finished transactions
  };

  explicit GarbageCollector(const Options& options);
  ~GarbageCollector() { Stop(); }

  void Start();
  void Stop();  // joins the thread

 private:
  void Run(std::stop_token stop);
  void Collect();
  void ForgetIfDue();

  const Options options_;
  PgSession session_;
  std::int64_t forgot_us_ = 0;
  XidAges running_;
  XidAges finished_;
  std::jthread thread_;
};

}  // namespace psp::sp
