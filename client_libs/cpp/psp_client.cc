// SPDX-License-Identifier: PostgreSQL
#include "client_libs/cpp/psp_client.h"

#include <algorithm>
#include <random>
#include <regex>
#include <string_view>
#include <thread>
#include <utility>

#include "client_libs/cpp/requests.h"

namespace psp_client {
namespace {

using psp::proto::ClientReply;
using psp::proto::ClientRequest;

constexpr std::chrono::milliseconds kAskDatabaseInterval{200};

// libpqxx would silently connect again, in the middle of a transaction. The call that forbids this is
// deprecated, because newer versions never connect again.
std::unique_ptr<pqxx::connection> Open(const std::string& dsn) {
  auto connection = std::make_unique<pqxx::connection>(dsn);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  connection->inhibit_reactivation(true);
#pragma GCC diagnostic pop
  return connection;
}

std::mt19937_64& Random() {
  thread_local std::mt19937_64 generator{std::random_device{}()};
  return generator;
}

// Ids that psp has not given. They are uuids of version 15, which nothing else has: psp is never
// asked about them.
TxId RandomId() {
  static constexpr std::string_view kForm = "xxxxxxxx-xxxx-fxxx-axxx-xxxxxxxxxxxx";
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::uniform_int_distribution<std::size_t> digit(0, 15);
  TxId id(kForm);
  for (char& c : id)
    if (c == 'x') c = kDigits[digit(Random())];
  return id;
}

void RefuseOwnId(const TxId& tx_id) {
  if (tx_id.size() > 14 && tx_id[14] == 'f')
    throw pqxx::usage_error("psp: " + tx_id +
                            " is known to its client alone; of an OutcomeUnknown psp knows the id");
}

// The endpoint as a client can connect to it: a daemon that listens at all addresses is where its PostgreSQL
// is.
std::string Reachable(const std::string& endpoint, const char* database_host) {
  const std::string host = database_host == nullptr ? "" : database_host;
  for (const std::string_view everywhere : {"tcp://*:", "tcp://0.0.0.0:", "tcp://[::]:"}) {
    if (!endpoint.starts_with(everywhere)) continue;
    const bool is_local = host.empty() || host.starts_with('/');
    return "tcp://" + (is_local ? "127.0.0.1" : host) + ":" + endpoint.substr(everywhere.size());
  }
  return endpoint;
}

// In a session of its own: the client's may be in a transaction, with an old snapshot.
std::string FindEndpoint(const std::string& dsn) {
  try {
    pqxx::connection connection(dsn);
    pqxx::nontransaction sql(connection);
    const std::string found = sql.exec1("SELECT psp.client_endpoint()")[0].as<std::string>("");
    return found.empty() ? found : Reachable(found, connection.hostname());
  } catch (const pqxx::failure&) {
    return "";  // PostgreSQL is down, too, or its schema is being changed: later
  }
}

// The class of libpqxx that a statement's error of this SQLSTATE has.
[[noreturn]] void ThrowError(const std::string& sqlstate, const std::string& message) {
  if (sqlstate == "40001") throw pqxx::serialization_failure(message);
  if (sqlstate == "40P01") throw pqxx::deadlock_detected(message);
  if (sqlstate.starts_with("40")) throw pqxx::transaction_rollback(message);
  if (sqlstate.starts_with("08") && sqlstate != "08P01") throw pqxx::broken_connection(message);
  throw pqxx::sql_error(message, "commit request", sqlstate.c_str());
}

[[noreturn]] void ThrowReply(const ClientReply& reply) {
  const bool is_aborted = reply.status() == ClientReply::ABORTED;
  std::string message = reply.message().empty() ? "psp: the transaction is aborted" : reply.message();
  if (!reply.detail().empty()) message += "\nDETAIL:  " + reply.detail();
  if (!reply.hint().empty()) message += "\nHINT:  " + reply.hint();
  ThrowError(!reply.sqlstate().empty() ? reply.sqlstate() : is_aborted ? "40000" : "08P01", message);
}

Committed CommittedOrThrow(const TxId& tx_id, const ClientReply& reply) {
  if (reply.status() != ClientReply::COMMITTED) ThrowReply(reply);
  return {tx_id, reply.global_t()};
}

Status StatusOrThrow(const ClientReply& reply) {
  switch (reply.status()) {
    case ClientReply::RUNNING:
      return Status::kRunning;
    case ClientReply::WAITING:
      return Status::kWaiting;
    case ClientReply::PENDING:
      return Status::kPending;
    case ClientReply::COMMITTED:
      return Status::kCommitted;
    case ClientReply::ABORTED:
      return Status::kAborted;
    default:
      ThrowReply(reply);
  }
}

// The id in the error of native mode for a commit whose outcome it does not know (08007); empty for another
// error. libpqxx keeps no SQLSTATE of class 08, so that the hint is what tells.
TxId UnknownNatively(const std::string& error) {
  static const std::regex hint("SELECT psp\\.outcome\\('([0-9a-f-]{36})'\\)");
  std::smatch found;
  return std::regex_search(error, found, hint) ? found[1].str() : "";
}

}  // namespace

OutcomeUnknown::OutcomeUnknown(TxId tx_id, const std::string& why)
    : pqxx::in_doubt_error("psp: transaction " + tx_id + " may be committed or not: " + why),
      tx_id_(std::move(tx_id)) {}

Client::Client(std::string dsn, Settings settings) : dsn_(std::move(dsn)), settings_(std::move(settings)) {
  connection_ = Open(dsn_);
  pqxx::nontransaction sql(*connection_);
  const auto found = sql.exec1("SELECT pg_catalog.to_regprocedure('psp.client_endpoint()') IS NOT NULL");
  if (!found[0].as<bool>()) return;
  mode_ = Mode::kViews;
  requests_ = std::make_unique<Requests>(settings_, [dsn = dsn_] { return FindEndpoint(dsn); });
}

Client::~Client() = default;

TxId Client::Begin(Isolation isolation, Access access) {
  RefuseSecond();
  if (!connection_->is_open()) connection_ = Open(dsn_);  // its server has ended it, by a restart for example
  std::string begin = isolation == Isolation::kRepeatableRead ? "BEGIN ISOLATION LEVEL REPEATABLE READ"
                                                              : "BEGIN ISOLATION LEVEL READ COMMITTED";
  if (access == Access::kReadOnly) begin += " READ ONLY";
  by_request_ = mode_ == Mode::kViews && access == Access::kReadWrite;
  if (by_request_) begin += "; SELECT psp.begin()";  // one round trip
  sql_ = std::make_unique<pqxx::nontransaction>(*connection_);
  open_ = RandomId();
  try {
    const pqxx::result found = sql_->exec(begin);
    if (by_request_) open_ = found[0][0].as<std::string>();
  } catch (...) {
    RollBackQuietly();
    throw;
  }
  return open_;
}

void Client::RefuseSecond() const {
  if (!open_.empty()) throw pqxx::usage_error("psp: a transaction is open: commit or abort it first");
}

pqxx::transaction_base& Client::sql() {
  if (open_.empty()) throw pqxx::usage_error("psp: no transaction is open");
  return *sql_;
}

Committed Client::Commit() { return Get(CommitAsync()); }

Committed Client::Commit(const TxId& tx_id) {
  if (tx_id == open_) return Commit();
  RefuseOwnId(tx_id);
  if (mode_ == Mode::kNative) return AskDatabaseAgain(tx_id);
  return CommittedOrThrow(tx_id, requests_->Wait(requests_->Ask(ClientRequest::COMMIT, tx_id), tx_id));
}

TxId Client::CommitAsync() {
  if (open_.empty()) throw pqxx::usage_error("psp: no transaction is open");
  TxId tx_id = std::exchange(open_, "");
  if (!by_request_) {
    tickets_[tx_id] = CommitByPostgres(tx_id);
    return tx_id;
  }
  try {
    CommitInPostgres();
  } catch (const pqxx::failure&) {
    if (connection_->is_open()) throw;
    // Else the COMMIT may have reached PostgreSQL: the semi-primary knows.
  }
  tickets_[tx_id] = requests_->Ask(ClientRequest::COMMIT, tx_id);
  return tx_id;
}

Committed Client::Get(const TxId& tx_id) {
  const auto found = tickets_.extract(tx_id);
  if (!found) throw pqxx::usage_error("psp: no commit of " + tx_id + " is under way here");
  const Ticket& ticket = found.mapped();
  if (const auto* error = std::get_if<std::exception_ptr>(&ticket)) std::rethrow_exception(*error);
  if (const auto* committed = std::get_if<Committed>(&ticket)) return *committed;
  return CommittedOrThrow(tx_id, requests_->Wait(std::get<std::uint64_t>(ticket), tx_id));
}

Status Client::Outcome(const TxId& tx_id) {
  RefuseOwnId(tx_id);
  if (mode_ == Mode::kNative) return AskDatabase(tx_id);
  return StatusOrThrow(requests_->Wait(requests_->Ask(ClientRequest::OUTCOME, tx_id), tx_id));
}

void Client::Abort() {
  if (open_.empty()) return;
  open_.clear();
  const auto sql = std::move(sql_);
  if (connection_->is_open()) sql->exec("ROLLBACK");
}

// PostgreSQL's COMMIT: in native mode the commit itself, in views mode what must come before its request.
void Client::CommitInPostgres() {
  const auto sql = std::move(sql_);
  try {
    // COMMIT after a failed statement rolls back and says so in its command tag only, which libpqxx does not
    // show. Any other statement is refused then (25P02).
    sql->exec("SELECT; COMMIT");
  } catch (const pqxx::failure&) {
    if (connection_->is_open()) {
      const pqxx::quiet_errorhandler no_warning_if_nothing_is_open(*connection_);
      sql->exec("ROLLBACK");
    }
    throw;
  }
}

Client::Ticket Client::CommitByPostgres(const TxId& tx_id) {
  try {
    CommitInPostgres();
    return Committed{tx_id, std::nullopt};
  } catch (const pqxx::failure& problem) {
    try {
      // psp itself is asked what became of it, under the id that it has given the transaction.
      const TxId known = UnknownNatively(problem.what());
      if (!known.empty()) return Committed{tx_id, AskDatabaseAgain(known).global_t};
      if (!connection_->is_open())
        throw pqxx::in_doubt_error(std::string("psp: the connection was lost at COMMIT: ") + problem.what());
      throw;
    } catch (const pqxx::failure&) {
      return std::current_exception();
    }
  }
}

// What native mode knows of the transaction, from sessions of its own until there is an answer.
Status Client::AskDatabase(const TxId& tx_id) const {
  const auto deadline = std::chrono::steady_clock::now() + settings_.timeout;
  while (true) {
    try {
      pqxx::connection connection(dsn_);
      pqxx::nontransaction sql(connection);
      const auto found = sql.exec_params1("SELECT psp.outcome($1::uuid)::text", tx_id);
      const auto outcome = found[0].as<std::string>("");
      if (outcome == "forgotten") throw OutcomeUnknown(tx_id, "it is forgotten");
      return outcome == "committed" ? Status::kCommitted : Status::kAborted;
    } catch (const pqxx::broken_connection& problem) {
      if (std::chrono::steady_clock::now() >= deadline) throw OutcomeUnknown(tx_id, problem.what());
      std::this_thread::sleep_for(kAskDatabaseInterval);
    }
  }
}

Committed Client::AskDatabaseAgain(const TxId& tx_id) const {
  if (AskDatabase(tx_id) == Status::kCommitted) return {tx_id, std::nullopt};
  throw pqxx::transaction_rollback("psp: transaction " + tx_id + " is aborted");
}

void Client::RollBackQuietly() noexcept {
  try {
    Abort();
  } catch (const std::exception&) {
    // The connection is gone, and the transaction with it.
  }
}

void Client::PauseOrRethrow(int failures) const {
  try {
    throw;
  } catch (const pqxx::serialization_failure&) {
    if (failures >= settings_.attempts) throw;
  } catch (const pqxx::deadlock_detected&) {
    if (failures >= settings_.attempts) throw;
  }
  const auto bound =
      std::min(settings_.backoff_longest, settings_.backoff_first * (1 << std::min(failures, 16)));
  std::uniform_int_distribution<std::int64_t> pause(0, bound.count());
  std::this_thread::sleep_for(std::chrono::microseconds(pause(Random())));
}

}  // namespace psp_client
