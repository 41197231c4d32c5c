// One PostgreSQL session, its settings and prepared statements, and what to do when something fails.
//
// libpqxx's exceptions stop here: they become one of four reactions.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <pqxx/pqxx>
#include <stop_token>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/pg_errors.h"
#include "common/raw_connection.h"
#include "common/result.h"

namespace psp {

// A binary parameter for exec_prepared: an array from ArrayWriter, a bytea, … (one copy is made).
// For a number of parameters known only at run time: pqxx::prepare::make_dynamic_params(vector of these).
inline pqxx::binarystring Binary(std::string_view bytes) { return {bytes.data(), bytes.size()}; }

// Owned and used by one thread. Listens to nothing: notifications are dropped. Does not connect by itself: call Connect or ConnectUntilStopped.
class PgSession {
 public:
  struct Options {
    std::string conninfo;               // libpq's
    std::string application_name;       // shown in pg_stat_activity
    std::vector<std::string> settings;  // SQL run after connecting, e.g. "SET synchronous_commit = off"
    // Names and values that the session begins with, so that RESET ALL brings them back. No session has a
    // timeout unless it is given here, or set later.
    std::vector<std::pair<std::string, std::string>> startup{};
    std::int64_t backoff_min_ms = 50;  // between attempts of ConnectUntilStopped; doubles up to the maximum
    std::int64_t backoff_max_ms = 2000;
  };

  explicit PgSession(Options options);
  ~PgSession();
  PgSession(const PgSession&) = delete;
  PgSession& operator=(const PgSession&) = delete;

  // Declares a statement that every connection from now on has under this name (prepared when first used).
  void Prepare(std::string name, std::string sql);

  // One attempt; closes an older connection first. Error: kReconnect (try later), kAbort (a refused setting).
  PgResult<Done> Connect();

  // Attempts with backoff until connected; false only when stop was requested. Logs the first of the
  // failures.
  bool ConnectUntilStopped(std::stop_token stop);

  // Whether the last operation left a usable connection (no traffic).
  bool connected() const;

  // The backend of the current connection, or of the last one; 0 before the first.
  int backend_pid() const { return backend_pid_; }
  // When it started (seconds since 1970 as text), which together with the pid names it for ever.
  const std::string& backend_start() const { return backend_start_; }

  // Runs `work(pqxx::work&)` and COMMITs. The value is what `work` returns (Done for void). After kReconnect
  // or kInDoubt the connection is closed. Any exception that is not libpqxx's rolls back and is passed on.
  template <class Work>
  auto Transaction(Work&& work) {
    return Run<pqxx::work>(std::forward<Work>(work));
  }
  // The same in REPEATABLE READ.
  template <class Work>
  auto SnapshotTransaction(Work&& work) {
    return Run<pqxx::transaction<pqxx::repeatable_read>>(std::forward<Work>(work));
  }

  // Runs `work(pqxx::nontransaction&)`, each statement in its own transaction: cheapest for a single
  // statement. If the connection breaks anywhere inside, the statement is in doubt.
  template <class Work>
  auto Autocommit(Work&& work) {
    return Run<pqxx::nontransaction>(std::forward<Work>(work));
  }

  // A transaction that stays open from call to call: Begin, then InOpen as often as needed, then Commit. It is
  // rolled back by any error, and by each function here that begins another one.
  PgResult<Done> Begin();
  template <class Work>
  auto InOpen(Work&& work) {
    using Out = PgResult<decltype(ValueOf(work, *open_))>;
    if (!open_) return Out(PgError{PgReaction::kReconnect, "", "no transaction is open"});
    try {
      connection_->DropNotifications();
      return Out(ValueOf(work, *open_));
    } catch (const pqxx::pqxx_exception& problem) {
      Rollback();
      return Out(Classify(problem, false));
    }
  }
  PgResult<Done> Commit();
  void Rollback() { open_.reset(); }

  // For what has no wrapper here, such as a stream_to inside Transaction. Only while connected().
  RawConnection& connection() { return *connection_; }

  void Close();

 private:
  // What the work returns; Done for void.
  template <class Work, class Tx>
  static auto ValueOf(Work& work, Tx& tx) {
    if constexpr (std::is_void_v<std::invoke_result_t<Work&, Tx&>>) {
      work(tx);
      return Done{};
    } else {
      return work(tx);
    }
  }

  template <class Tx, class Work>
  auto Run(Work&& work) {
    using Value = decltype(ValueOf(work, std::declval<Tx&>()));
    using Out = PgResult<Value>;
    Rollback();
    if (!connected()) return Out(PgError{PgReaction::kReconnect, "", "not connected"});
    bool committing = std::is_same_v<Tx, pqxx::nontransaction>;
    try {
      Tx tx(*connection_);
      Value value = ValueOf(work, tx);
      committing = true;
      tx.commit();
      connection_->DropNotifications();
      return Out(std::move(value));
    } catch (const pqxx::pqxx_exception& problem) {
      return Out(Classify(problem, committing));
    }
  }

  // To be called inside a handler, with the transaction object gone. Closes the connection if it is broken.
  PgError ErrorOf(const pqxx::pqxx_exception& problem, bool committing);
  PgError Classify(const pqxx::pqxx_exception& problem, bool committing);  // counts it, too
  void Open(int server_version);
  void SetUp();

  const Options options_;
  std::vector<std::pair<std::string, std::string>> statements_;
  std::unique_ptr<RawConnection> connection_;
  std::unique_ptr<pqxx::work> open_;  // ends before its connection
  int backend_pid_ = 0;
  std::string backend_start_;
};

// Ends another backend, named by pid and start, and waits until it has gone (then its transaction has
// committed or rolled back for good). Value: true when gone, false when it was still there after `timeout`.
// Needs the same role as the other session or pg_signal_backend.
PgResult<bool> TerminateBackend(PgSession& session, int pid, const std::string& backend_start,
                                std::chrono::milliseconds timeout);

// Waits for the time to pass or for the request to stop; true when stop was requested.
bool WaitOrStop(std::stop_token stop, std::int64_t wait_ms);

}  // namespace psp
