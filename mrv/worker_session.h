// What every worker has: a session, and a count of what it did and what went wrong.
#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include "common/log.h"
#include "common/pg_session.h"
#include "mrv/settings.h"
#include "mrv/worker_counts.h"

namespace psp::mrv {

// Owned and used by the worker's thread.
//
// Each statement is a transaction of its own. A worker that is killed leaves each done or not done, and no lock
// lasts longer than one statement. No error is fatal: tables may be dropped or created while a worker runs,
// values may be locked, PostgreSQL may be restarted.
class WorkerSession {
 public:
  // `worker`: "adjust", "balance" or "status", as psp_mrv.workers names it; `runner`: from 0.
  WorkerSession(const MrvSettings& settings, std::string worker, int runner);

  void Prepare(std::string name, std::string_view sql) {
    session_.Prepare(std::move(name), std::string(sql));
  }

  // Connects if there is no connection; false only when stop is requested.
  bool Connect(std::stop_token stop) { return session_.connected() || session_.ConnectUntilStopped(stop); }
  bool connected() const { return session_.connected(); }

  // Runs a prepared statement. Nothing when it failed, which has been counted and, once for each kind,
  // logged.
  template <class... Arguments>
  std::optional<pqxx::result> Call(const std::string& name, Arguments&&... arguments) {
    auto done = session_.Autocommit([&](pqxx::nontransaction& tx) {
      return tx.exec_prepared(name, std::forward<Arguments>(arguments)...);
    });
    if (done.ok()) return std::move(*done);
    Failed(name, done.error());
    return std::nullopt;
  }

  // For psp_mrv.workers and the metrics. CountAction: a value was changed.
  void CountRound() {
    ++rounds_;
    ++counts_.rounds;
  }
  void CountAction() {
    ++actions_;
    ++counts_.changes;
  }
  // Writes the row of psp_mrv.workers, at most once a second.
  void WriteSelf();

 private:
  void Failed(const std::string& name, const PgError& error);

  const std::string worker_;
  const int runner_;
  WorkerCounts& counts_;
  PgSession session_;
  LogOnce logged_;
  std::int64_t rounds_ = 0;
  std::int64_t actions_ = 0;
  std::int64_t aborts_ = 0;  // 40001, 40P01, 55P03
  std::optional<std::string> last_error_;
  std::int64_t written_us_ = 0;
};

}  // namespace psp::mrv
