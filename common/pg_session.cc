#include "common/pg_session.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "common/conninfo.h"
#include "common/log.h"
#include "embedded/common_sql.h"

namespace psp {
namespace {

// Class 08: connection; 57P01 to 57P03: the server shuts down or starts.
// 08P01 is what a server says of values that it cannot read; the connection goes on.
bool IsConnectionState(std::string_view sqlstate) {
  return (sqlstate.starts_with("08") && sqlstate != "08P01") || sqlstate == "57P01" || sqlstate == "57P02" ||
         sqlstate == "57P03";
}

// libpqxx would silently connect again and so lose settings and locks. The call that forbids this is
// deprecated, because newer versions never connect again.
void ForbidSilentReconnect(pqxx::connection_base& connection) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  connection.inhibit_reactivation(true);
#pragma GCC diagnostic pop
}

// The owner of a database may give its sessions timeouts that end even the first statement, or the pause
// before it. A server on another host ends the session of a line that is cut, and with it its locks: the next one
// needs them. A server refuses a session that begins with a setting which it does not know.
std::vector<std::pair<std::string, std::string>> FirstSettings(int server_version) {
  std::vector<std::pair<std::string, std::string>> settings = {
      {"statement_timeout", "0"},
      {"lock_timeout", "0"},
      {"idle_in_transaction_session_timeout", "0"},
      {"idle_session_timeout", "0"},
      {"tcp_keepalives_idle", "10"},
      {"tcp_keepalives_interval", "5"},
      {"tcp_keepalives_count", "3"},
      {"tcp_user_timeout", "25000"},
  };
  if (server_version >= 170000) settings.emplace_back("transaction_timeout", "0");
  return settings;
}

}  // namespace

PgSession::PgSession(Options options) : options_(std::move(options)) {}

PgSession::~PgSession() = default;

void PgSession::Prepare(std::string name, std::string sql) {
  if (connected()) connection_->prepare(name, sql);
  statements_.emplace_back(std::move(name), std::move(sql));
}

bool PgSession::connected() const { return connection_ != nullptr && connection_->is_open(); }

void PgSession::Close() {
  Rollback();
  connection_.reset();
}

PgResult<Done> PgSession::Begin() {
  Rollback();
  if (!connected()) return PgError{PgReaction::kReconnect, "", "not connected"};
  try {
    open_ = std::make_unique<pqxx::work>(*connection_);
    return Done{};
  } catch (const pqxx::pqxx_exception& problem) {
    return Classify(problem, false);
  }
}

PgResult<Done> PgSession::Commit() {
  if (!open_) return PgError{PgReaction::kReconnect, "", "no transaction is open"};
  try {
    open_->commit();
    Rollback();
    return Done{};
  } catch (const pqxx::pqxx_exception& problem) {
    Rollback();
    return Classify(problem, true);
  }
}

void PgSession::Open(int server_version) {
  auto settings = FirstSettings(server_version);
  settings.insert(settings.end(), options_.startup.begin(), options_.startup.end());
  connection_ = std::make_unique<RawConnection>(WithSettings(options_.conninfo, settings));
  ForbidSilentReconnect(*connection_);
}

void PgSession::SetUp() {
  Open(0);
  // Its version is known when a session is there.
  if (FirstSettings(connection_->server_version()) != FirstSettings(0)) Open(connection_->server_version());
  pqxx::nontransaction tx(*connection_);
  if (options_.startup.empty()) {
    tx.exec("SET ROLE NONE");
    tx.exec("SET search_path = pg_catalog");  // before any name is looked up
    tx.exec(std::string(sql::kSessionSettings));
  }
  tx.exec_params("SELECT set_config('application_name', $1, false)", options_.application_name);
  for (const std::string& sql : options_.settings) tx.exec(sql);
  const pqxx::row row = tx.exec1(std::string(sql::kBackendOfSession));
  backend_pid_ = row[0].as<int>();
  backend_start_ = row[1].as<std::string>();
  tx.commit();
  for (const auto& [name, sql] : statements_) connection_->prepare(name, sql);
}

PgResult<Done> PgSession::Connect() {
  Close();
  try {
    SetUp();
    return Done{};
  } catch (const pqxx::pqxx_exception& problem) {
    PgError error = ErrorOf(problem, false);
    Close();
    if (error.sqlstate.empty()) error.reaction = PgReaction::kReconnect;
    CountPgError(error.reaction);
    return error;
  }
}

bool PgSession::ConnectUntilStopped(std::stop_token stop) {
  std::int64_t wait_ms = options_.backoff_min_ms;
  bool logged = false;
  while (!stop.stop_requested()) {
    const PgResult<Done> attempt = Connect();
    if (attempt.ok()) {
      if (logged) spdlog::info("{}: PostgreSQL is back", options_.application_name);
      return true;
    }
    if (!logged)
      spdlog::warn("{}: cannot connect, trying again: {}", options_.application_name,
                   attempt.error().message);
    logged = true;
    if (WaitOrStop(stop, wait_ms)) return false;
    wait_ms = std::min(wait_ms * 2, options_.backoff_max_ms);
  }
  return false;
}

PgError PgSession::Classify(const pqxx::pqxx_exception& problem, bool committing) {
  PgError error = ErrorOf(problem, committing);
  CountPgError(error.reaction);
  return error;
}

PgError PgSession::ErrorOf(const pqxx::pqxx_exception& problem, bool committing) {
  PgError error{PgReaction::kAbort, "", OneLine(problem.base().what())};
  if (const auto* sql = dynamic_cast<const pqxx::sql_error*>(&problem)) error.sqlstate = sql->sqlstate();
  // libpqxx gives this one no code.
  if (dynamic_cast<const pqxx::insufficient_privilege*>(&problem) != nullptr) error.sqlstate = "42501";
  const bool in_doubt = dynamic_cast<const pqxx::in_doubt_error*>(&problem) != nullptr ||
                        dynamic_cast<const pqxx::statement_completion_unknown*>(&problem) != nullptr;
  const bool broken = in_doubt || !connected() || IsConnectionState(error.sqlstate) ||
                      dynamic_cast<const pqxx::broken_connection*>(&problem) != nullptr;
  if (broken) {
    error.reaction = in_doubt || committing ? PgReaction::kInDoubt : PgReaction::kReconnect;
    Close();
  } else if (dynamic_cast<const pqxx::serialization_failure*>(&problem) != nullptr) {
    error.reaction = PgReaction::kRetry;
    error.sqlstate = "40001";
  } else if (dynamic_cast<const pqxx::deadlock_detected*>(&problem) != nullptr) {
    error.reaction = PgReaction::kRetry;
    error.sqlstate = "40P01";
  }
  return error;
}

PgResult<bool> TerminateBackend(PgSession& session, int pid, const std::string& backend_start,
                                std::chrono::milliseconds timeout) {
  return session.Autocommit([&](pqxx::nontransaction& tx) {
    const pqxx::result gone =
        tx.exec_params(std::string(sql::kEndBackend), pid, backend_start, timeout.count());
    return gone.empty() || gone[0][0].as<bool>();
  });
}

bool WaitOrStop(std::stop_token stop, std::int64_t wait_ms) {
  std::mutex mutex;
  std::condition_variable_any nothing;
  std::unique_lock lock(mutex);
  nothing.wait_for(lock, stop, std::chrono::milliseconds(wait_ms), [] { return false; });
  return stop.stop_requested();
}

}  // namespace psp
