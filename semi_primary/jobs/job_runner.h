// Runs jobs: statements of schema changes that PostgreSQL runs in no transaction (sql/native/install/jobs.sql), in their order, one at a
// time, as the role that asked for them. Has a thread and a PostgreSQL session of its own.
//
// What may pass (a cancel, since the apply worker waited for it; a full disk; a lost session) is tried again, after a pause that grows.
// Any other error ends the job as failed; psp.schema_jobs and psp.status tell.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "common/log.h"
#include "common/pg_session.h"

namespace psp::sp {

class JobRunner {
 public:
  // `database`: psp.this_database() of the one to work in.
  JobRunner(const std::string& conninfo, std::string database);

  void Start();
  // Ends what runs, which is tried again at the next start, and joins the thread.
  void Stop();
  // There may be a new job. From any thread.
  void WakeUp();

 private:
  struct Job {
    int change = 0;
    int statement_n = 0;
    std::string statement;
    std::string role;
    std::string settings;  // JSON
    bool is_drop = false;
    std::string leftover;  // an index to drop before; empty: none
  };

  void Run(std::stop_token stop);
  PgResult<std::optional<Job>> Begin();
  PgResult<Done> Execute(const Job& job, std::stop_token stop);
  void EndSession(int pid, const std::string& backend_start) const;
  PgResult<Done> End(const Job& job, const PgResult<Done>& result);

  const std::string conninfo_;
  const std::string database_;
  PgSession session_;
  LogOnce logged_;
  std::mutex mutex_;
  std::condition_variable_any wake_up_;
  bool awake_ = true;  // guarded by mutex_
  std::jthread thread_;
};

}  // namespace psp::sp
