#include "semi_primary/session/local_workers.h"

#include <algorithm>
#include <optional>
#include <unordered_set>
#include <utility>

#include "common/growing_pause.h"
#include "common/log.h"
#include "common/pg_binary.h"
#include "common/this_database.h"

namespace psp::sp {
namespace {

using Status = TransactionState::Status;

constexpr std::string_view kLockNotAvailable = "55P03";

// The functions of sql/views/install/workers.sql.j2 rely on search_path, on how values look as text, and on
// generic plans.
const std::vector<std::string> kSettings = {
    // A commit that a crash takes back comes again from the primary.
    "SET synchronous_commit = off",
    "SET search_path = pg_catalog",
    "SET client_encoding = 'UTF8'",
    "SET datestyle = 'ISO, MDY'",
    "SET intervalstyle = 'postgres'",
    "SET extra_float_digits = 1",
    "SET bytea_output = 'hex'",
    "SET lc_monetary = 'C'",
    "SET timezone = 'UTC'",
    "SET session_replication_role = replica",
    "SET row_security = off",
    "SET lock_timeout = '1s'",  // so that a stop is seen; then it is tried again
    "SET plan_cache_mode = force_generic_plan",
};

Status StatusOf(std::string_view name) {
  if (name == "running") return Status::kRunning;
  if (name == "waiting") return Status::kWaiting;
  if (name == "pending") return Status::kPending;
  return name == "committed" ? Status::kCommitted : Status::kAborted;
}

// Columns status, decided_t, sqlstate, reason, detail, hint.
TransactionState StateOf(const pqxx::row& row) {
  TransactionState state;
  if (row["status"].is_null()) return state;
  state.status = StatusOf(row["status"].c_str());
  state.global_t = row["decided_t"].as<GlobalT>(0);
  state.reason = {row["sqlstate"].as<std::string>(""), row["reason"].as<std::string>(""),
                  row["detail"].as<std::string>(""), row["hint"].as<std::string>("")};
  return state;
}

std::vector<GlobalT> Numbers(std::string_view list) {
  std::vector<GlobalT> numbers;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(','), list.size());
    numbers.push_back(std::stoll(std::string(list.substr(0, end))));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  std::ranges::sort(numbers);
  return numbers;
}

// Columns table_id, key, global_t, deleted, image, from the second row on; catalog_version in the first. A
// guard that two rows take (a hash) is taken once.
std::shared_ptr<proto::WriteSet> WriteSetOf(const pqxx::result& rows) {
  auto write_set = std::make_shared<proto::WriteSet>();
  write_set->set_catalog_version(rows[0]["catalog_version"].as<std::uint32_t>());
  std::unordered_set<RowKey, RowKeyHash, RowKeyEqual> seen;
  const auto bytes = [](const pqxx::field& field) {
    return DecodeByteaText({field.c_str(), field.size()}).value_or("");
  };
  for (auto row = rows.begin() + 1; row != rows.end(); ++row) {
    const RowKey key{row["table_id"].as<std::uint32_t>(), bytes(row["key"])};
    if (!seen.insert(key).second) continue;
    proto::Row* out = write_set->add_rows();
    out->set_table_id(key.table_id);
    out->set_key(key.key);
    out->set_deleted(row["deleted"].as<bool>());
    if (!row["image"].is_null()) {
      out->set_image(bytes(row["image"]));
    } else if (!out->deleted()) {
      out->set_access(proto::ACCESS_GUARD);
    }
    // 0: none is known, and the snapshot decides.
    if (const auto known_t = row["global_t"].as<GlobalT>(0); known_t > 0) out->set_global_t(known_t);
  }
  return write_set;
}

std::string ArrayText(const std::vector<std::int32_t>& numbers) {
  std::string text;
  for (const std::int32_t number : numbers) text += (text.empty() ? "" : ",") + std::to_string(number);
  return "{" + text + "}";
}

// One worker's session, and what it does there.
class Worker {
 public:
  Worker(const std::string& conninfo, const std::string& database, std::size_t number)
      : database_(database),
        session_({.conninfo = conninfo,
                  .application_name = "psp local worker " + std::to_string(number),
                  .settings = kSettings}) {
    session_.Prepare("take", "SELECT * FROM psp.take_commit_request($1)");
    session_.Prepare("look", "SELECT * FROM psp.look($1)");
    session_.Prepare("abort_running", "SELECT psp.abort_running($1)");
    session_.Prepare("apply", "SELECT psp.apply($1, $2, $3)");
    session_.Prepare("is_applied", "SELECT psp.is_applied($1)");
    session_.Prepare("abort", "SELECT psp.abort($1, $2, $3, nullif($4, ''), nullif($5, ''))");
    session_.Prepare("list_pending", "SELECT tx_id FROM psp.transactions WHERE status = 'pending'");
  }

  // Nothing when stop was requested while the database was away.
  std::optional<JobResult> Do(const Job& job, std::stop_token stop) {
    while (true) {
      if (!session_.connected() && !ConnectToDatabase(session_, database_, stop)) return std::nullopt;
      auto done = std::visit([this](const auto& what) { return Try(what); }, job);
      if (done) {
        pause_.Reset();
        return std::move(*done);
      }
      const PgError& error = done.error();
      if (error.reaction == PgReaction::kRetry) continue;
      if (error.sqlstate == kLockNotAvailable && !stop.stop_requested()) continue;
      const bool passes = error.reaction != PgReaction::kAbort || (MayPass(error.sqlstate) && !IsAsked(job));
      if (!passes) return Failed(job, error);
      spdlog::warn("local worker: {} {}", error.sqlstate, error.message);
      if (WaitOrStop(stop, pause_.NextMs())) return std::nullopt;
    }
  }

 private:
  PgResult<JobResult> Try(const TakeCommitRequest& job) {
    return session_.Autocommit([&](pqxx::nontransaction& tx) -> JobResult {
      const pqxx::result rows = tx.exec_prepared("take", job.tx_id.ToText());
      CommitRequestTaken taken{.tx_id = job.tx_id, .state = {}, .seen = {}, .write_set = {}};
      if (rows.empty()) return taken;
      taken.state = StateOf(rows[0]);
      if (taken.state.status != Status::kWaiting) return taken;
      if (rows.size() == 1) {  // nothing was written
        taken.state.status = Status::kCommitted;
        return taken;
      }
      taken.watermark = rows[0]["watermark"].as<GlobalT>();
      taken.seen = Numbers(rows[0]["seen"].as<std::string>(""));
      taken.write_set = WriteSetOf(rows);
      return taken;
    });
  }

  PgResult<JobResult> Try(const Look& job) {
    return session_.Autocommit([&](pqxx::nontransaction& tx) -> JobResult {
      if (job.abort) tx.exec_prepared1("abort_running", job.tx_id.ToText());
      const pqxx::row row = tx.exec_prepared1("look", job.tx_id.ToText());
      Looked looked{job.tx_id, job.asked_by, StateOf(row), {}};
      if (row["is_open"].as<bool>()) looked.state.status = Status::kOpen;
      return looked;
    });
  }

  PgResult<JobResult> Try(const Apply& job) {
    return session_.Autocommit([&](pqxx::nontransaction& tx) -> JobResult {
      const std::string tables = ArrayText(job.table_ids);
      const char* written = job.table_ids.empty() ? nullptr : tables.c_str();
      bool is_in = tx.exec_prepared1("apply", job.tx_id.ToText(), job.global_t, written)[0].as<bool>();
      if (!is_in) is_in = tx.exec_prepared1("is_applied", job.global_t)[0].as<bool>();
      return ApplyTried{job.tx_id, job.global_t, is_in};
    });
  }

  PgResult<JobResult> Try(const Abort& job) {
    return session_.Autocommit([&](pqxx::nontransaction& tx) -> JobResult {
      const UserError& why = job.reason;
      tx.exec_prepared("abort", job.tx_id.ToText(), why.message, why.sqlstate, why.detail, why.hint);
      return AbortWritten{job.tx_id};
    });
  }

  PgResult<JobResult> Try(const ListPending&) {
    return session_.Autocommit([&](pqxx::nontransaction& tx) -> JobResult {
      PendingListed listed;
      for (const pqxx::row& row : tx.exec_prepared("list_pending")) {
        if (const auto tx_id = TxId::FromText(row[0].c_str())) listed.tx_ids.push_back(*tx_id);
      }
      return listed;
    });
  }

  // A client waits for this job and gets each error. Any other job is tried until it is done.
  static bool IsAsked(const Job& job) {
    return std::holds_alternative<TakeCommitRequest>(job) || std::holds_alternative<Look>(job);
  }

  // The database refuses it.
  static JobResult Failed(const Job& job, const PgError& error) {
    if (const auto* take = std::get_if<TakeCommitRequest>(&job)) {
      const std::string hint =
          error.sqlstate == "25001" ? "COMMIT it in PostgreSQL before the commit request." : "";
      return CommitRequestFailed{take->tx_id, {error.sqlstate, error.message, "", hint}};
    }
    spdlog::error("local worker: {} {}", error.sqlstate, error.message);
    if (const auto* look = std::get_if<Look>(&job)) {
      return Looked{look->tx_id, look->asked_by, {}, UserError{error.sqlstate, error.message}};
    }
    if (const auto* apply = std::get_if<Apply>(&job)) return ApplyTried{apply->tx_id, apply->global_t, false};
    if (const auto* abort = std::get_if<Abort>(&job)) return AbortWritten{abort->tx_id};
    return PendingListed{};
  }

  const std::string database_;
  PgSession session_;
  GrowingPause pause_{50, 5'000};
};

}  // namespace

LocalWorkers::LocalWorkers(const std::string& conninfo, const std::string& database, std::size_t workers,
                           std::function<void(JobResult)> report)
    : conninfo_(conninfo),
      database_(database),
      workers_(workers),
      report_(std::move(report)),
      jobs_(SIZE_MAX) {}

void LocalWorkers::Start() {
  for (std::size_t i = 0; i < workers_; ++i) {
    threads_.emplace_back([this, i](std::stop_token stop) { Run(stop, i + 1); });
  }
}

void LocalWorkers::Push(Job job) { jobs_.Push(std::move(job)); }

void LocalWorkers::Stop() {
  jobs_.Close();
  for (std::jthread& thread : threads_) thread.request_stop();
  threads_.clear();
}

void LocalWorkers::Run(std::stop_token stop, std::size_t number) {
  Worker worker(conninfo_, database_, number);
  while (const auto job = jobs_.Pop(stop)) {
    auto result = worker.Do(*job, stop);
    if (!result) return;
    report_(std::move(*result));
  }
}

}  // namespace psp::sp
