// Writes the outcomes of local transactions on Multi-Record Values into psp_mrv.outcomes, where psp-mrv's
// status worker takes them. Reports are hints: without a psp-mrv, or without a connection, they are dropped.
#pragma once

#include <stop_token>
#include <string>
#include <thread>

#include "common/log.h"
#include "common/pg_session.h"
#include "common/queue.h"
#include "semi_primary/mrv_report/mrv_outcomes.h"

namespace psp::sp {

// Add from one thread; a thread of its own writes. It connects when the first report comes: a database
// without MRVs has no session of it.
class MrvReporter {
 public:
  // `database`: psp.this_database() of the one to write to.
  MrvReporter(const std::string& conninfo, std::string database);
  ~MrvReporter() { Stop(); }

  void Start();
  void Stop();
  void Add(MrvReport report) { reports_.TryPush(std::move(report)); }

 private:
  void Run(std::stop_token stop);
  PgResult<Done> Write(const MrvReport& report);

  const std::string database_;
  BoundedQueue<MrvReport> reports_;
  PgSession session_;
  LogOnce logged_;
  std::jthread thread_;
};

}  // namespace psp::sp
