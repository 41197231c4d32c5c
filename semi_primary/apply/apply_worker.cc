#include "semi_primary/apply/apply_worker.h"

#include <algorithm>
#include <optional>

#include "common/clock.h"
#include "common/log.h"
#include "common/pg_binary.h"
#include "common/this_database.h"
#include "embedded/apply_sql.h"
#include "semi_primary/apply/load_catalog.h"
#include "semi_primary/apply/reaction.h"

namespace psp {
namespace {

// PostgreSQL has crashed since the daemon started, and took the temporary rows of views mode.
constexpr const char* kRecoverIfLost = "SELECT psp.recover() WHERE NOT EXISTS (SELECT FROM psp.temp_alive)";
// What follows after the rows, by when code of their owners has run: sql/semi_primary/install/apply_functions.sql.
constexpr const char* kEndBatch = "SELECT psp.end_batch($1::pg_catalog.int8, $2::pg_catalog.int8, $3, $4)";
constexpr const char* kResetSession = "SELECT psp.reset_apply_session()";

// Given when the session begins, so that RESET ALL brings them back.
const std::vector<std::pair<std::string, std::string>> kSettings = {
    {"application_name", "psp apply worker"},
    {"default_transaction_isolation", "read committed"},
    {"default_transaction_read_only", "off"},
    {"session_replication_role", "replica"},
    {"synchronous_commit", "off"},
    {"search_path", "pg_catalog, pg_temp"},  // pg_temp named, or it comes first
    {"client_encoding", "UTF8"},
    {"row_security", "off"},
    {"statement_timeout", "0"},
    {"lock_timeout", "0"},
    // In a deadlock with a local transaction the worker gives way, soon, and tries again: the other one then
    // reaches its COMMIT and is told 40001, where it would have been cancelled at the end of
    // conflict_grace_ms.
    {"deadlock_timeout", "10ms"},
    {"idle_in_transaction_session_timeout", "0"},
    {"idle_session_timeout", "0"},
    {"exit_on_error", "off"},
    {"default_transaction_deferrable", "off"},
    // How values are read.
    {"array_nulls", "on"},
    {"datestyle", "ISO, MDY"},
    {"intervalstyle", "postgres"},
    {"lc_monetary", "C"},
    {"xmloption", "content"},
    {"standard_conforming_strings", "on"},
    {"client_min_messages", "warning"},
    {"plan_cache_mode", "force_generic_plan"},
};

}  // namespace

ApplyWorker::ApplyWorker(Options options, std::function<void(ApplyEvent)> report)
    : options_(std::move(options)),
      report_(std::move(report)),
      inbox_(options_.limits),
      session_({.conninfo = options_.conninfo,
                .application_name = "psp apply worker",
                .settings = {},
                .startup = kSettings}),
      own_(&session_, &activity_, options_.views_mode),
      trouble_(report_) {}

void ApplyWorker::Start() {
  thread_ = std::jthread([this](std::stop_token stop) { Run(stop); });
}

void ApplyWorker::Stop() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

void ApplyWorker::Run(std::stop_token stop) {
  while (!stop.stop_requested()) {
    if (!session_.connected() && !session_.ConnectUntilStopped(stop)) return;
    After after = Begin(stop);
    if (after == After::kGoOn) after = Serve(stop);
    if (after == After::kFailed) return;
  }
  if (session_.connected()) MakeDurable(stop);
}

// Reads where this database stands, if it is the one to apply to. Without kGoOn the connection is closed.
ApplyWorker::After ApplyWorker::Begin(std::stop_token stop) {
  const PgResult<bool> is_it = IsDatabase(session_, options_.database);
  if (is_it.ok() && !*is_it) return FoundAnotherDatabase();
  const PgResult<Done> began = is_it.ok() ? ReadPosition() : PgResult<Done>(is_it.error());
  if (began.ok()) {
    trouble_.Began();
    return After::kGoOn;
  }
  const After after = Overcome(began.error(), stop);
  session_.Close();
  return after == After::kGoOn ? After::kBegin : after;
}

ApplyWorker::After ApplyWorker::FoundAnotherDatabase() {
  session_.Close();
  const std::string message =
      "`database` leads to another database than when this daemon started: nothing is written there. Let it "
      "lead to the same one again, or restart the daemon if this one is to be served now";
  spdlog::critical("{}", message);
  report_(ApplyFailed{message});
  return After::kFailed;
}

PgResult<Done> ApplyWorker::ReadPosition() {
  activity_.backend_pid = session_.backend_pid();
  auto state = session_.Transaction([this](pqxx::work& tx) {
    if (options_.views_mode) {
      tx.exec(kRecoverIfLost);
    } else {
      tx.exec0(std::string(sql::kApplyClaim));
    }
    const pqxx::row row = tx.exec1(std::string(sql::kApplyPosition));
    tx.exec_params0(std::string(sql::kApplyForgetProofs), GlobalT{0}, row[0].as<GlobalT>());
    Commits own;
    for (const pqxx::row& proof : tx.exec("SELECT global_t, tx_id FROM psp.applied")) {
      own.emplace(proof[0].as<GlobalT>(), TxId::FromText(proof[1].as<std::string>()).value_or(TxId()));
    }
    return std::tuple(row[0].as<GlobalT>(), row[1].as<bool>(), std::move(own));
  });
  auto catalog = state ? LoadCatalog(session_) : PgResult<TableCatalogPtr>(state.error());
  if (!catalog) return catalog.error();
  Commits own;
  std::tie(watermark_, joining_, own) = std::move(*state);
  durable_ = -1;
  durable_at_us_ = 0;
  copied_rows_ = 0;
  complete_t_ = INT64_MAX;
  catalog_ = *catalog;
  catalog_is_early_ = joining_;
  ++generation_;
  report_(ApplyStarted{generation_, watermark_, joining_, catalog_, std::move(own)});
  return Done{};
}

ApplyWorker::After ApplyWorker::Serve(std::stop_token stop) {
  After after = After::kGoOn;
  while (after == After::kGoOn && !stop.stop_requested()) {
    const bool owes = durable_ < watermark_;
    const std::int64_t idle_us =
        owes ? durable_at_us_ + options_.ack_interval_ms * 1000 : MonotonicUs() + 1'000'000;
    std::vector<ApplyStep> steps = inbox_.Take(stop, idle_us);
    std::erase_if(steps, [&](const ApplyStep& step) { return step.generation != generation_; });
    if (!steps.empty()) {
      after = steps[0].copied_rows ? ApplyCopy(steps[0], stop) : ApplySteps(steps, stop);
      if (after == After::kGoOn && catalog_is_early_ && !joining_) after = LoadCatalogAgain(stop);
    } else if (DurableIsDue()) {
      after = MakeDurable(stop);
    } else if (!stop.stop_requested()) {
      after = LookAlive(stop);
    }
  }
  return after;
}

ApplyWorker::After ApplyWorker::LoadCatalogAgain(std::stop_token stop) {
  auto catalog = LoadCatalog(session_);
  while (!catalog) {
    const After after = Overcome(catalog.error(), stop);
    if (after != After::kGoOn) return after;
    catalog = LoadCatalog(session_);
  }
  catalog_ = *catalog;
  catalog_is_early_ = joining_;
  report_(ApplyCatalog{catalog_});
  return After::kGoOn;
}

ApplyWorker::After ApplyWorker::LookAlive(std::stop_token stop) {
  const auto answer = session_.Autocommit([](pqxx::nontransaction& tx) { tx.exec("SELECT 1"); });
  if (!answer) return Overcome(answer.error(), stop);
  trouble_.Succeeded(watermark_);
  return After::kGoOn;
}

ApplyWorker::After ApplyWorker::Overcome(const PgError& error, std::stop_token stop, GlobalT blocked_at) {
  switch (ReactionTo(error)) {
    case ApplyReaction::kAtOnce:
      return stop.stop_requested() ? After::kBegin : After::kGoOn;
    case ApplyReaction::kWait:
      trouble_.Waits(error);
      return trouble_.Pause(stop) ? After::kBegin : After::kGoOn;
    case ApplyReaction::kStop:
      return Stopped(error.sqlstate, error.message, stop, blocked_at);
    case ApplyReaction::kBegin:
      break;
  }
  if (!stop.stop_requested()) spdlog::warn("apply: {} {}", error.sqlstate, error.message);
  session_.Close();
  trouble_.Pause(stop);
  return After::kBegin;
}

// In a new session: the cause may have been a setting of the database or a right.
ApplyWorker::After ApplyWorker::Stopped(const std::string& sqlstate, const std::string& what,
                                        std::stop_token stop, GlobalT blocked_at) {
  trouble_.Stops(blocked_at, sqlstate, what);
  session_.Close();
  trouble_.Pause(stop);
  return After::kBegin;
}

ApplyWorker::After ApplyWorker::ApplySteps(const std::vector<ApplyStep>& steps, std::stop_token stop) {
  Transactions transactions;
  for (const ApplyStep& step : steps) {
    transactions.insert(transactions.end(), step.transactions.begin(), step.transactions.end());
  }
  auto proven = own_.Prove(&transactions, stop);
  while (!proven) {
    const After after = Overcome(proven.error(), stop, watermark_);
    if (after != After::kGoOn) return after;
    proven = own_.Prove(&transactions, stop);
  }
  return ApplyInParts(transactions, steps.back().closed_t, stop);
}

// All at once; if that fails by itself, one transaction at a time, and then without ON CONFLICT.
ApplyWorker::After ApplyWorker::ApplyInParts(const Transactions& transactions, GlobalT closed_t,
                                             std::stop_token stop) {
  const auto apply = [&](const Transactions& some, GlobalT upto_t, bool replace_all, bool* failed_itself) {
    std::vector<WrittenRows> written;
    for (const ApplyTransaction& transaction : some) {
      if (transaction.write_set) written.push_back({transaction.global_t, transaction.write_set.get()});
    }
    const auto batch = [&](const std::vector<TableChange>& changes) {
      return ApplyBatch(changes, some, upto_t);
    };
    return ApplyOnce(written, batch, replace_all, failed_itself, stop);
  };
  bool failed_itself = false;
  After after = apply(transactions, closed_t, false, &failed_itself);
  if (!failed_itself) return after;
  for (std::size_t i = 0; i < transactions.size() && (failed_itself || after == After::kGoOn); ++i) {
    const bool is_last = i + 1 == transactions.size();
    const GlobalT upto_t = is_last ? closed_t : transactions[i].global_t;
    const Transactions alone = {transactions[i]};
    after = apply(alone, upto_t, false, &failed_itself);
    if (failed_itself) after = apply(alone, upto_t, true, &failed_itself);
    if (failed_itself) return after;
  }
  return after;
}

// Tries again what may pass. `*failed_itself` when it cannot; with replace_all nothing else is left to try,
// and the stream has stopped.
ApplyWorker::After ApplyWorker::ApplyOnce(
    const std::vector<WrittenRows>& written,
    const std::function<PgResult<Done>(const std::vector<TableChange>&)>& apply, bool replace_all,
    bool* failed_itself, std::stop_token stop) {
  *failed_itself = false;
  auto changes = BuildBatch(*catalog_, written, replace_all);
  if (!changes && changes.error().unknown_table) {
    const After after = LoadCatalogAgain(stop);
    if (after != After::kGoOn) return after;
    changes = BuildBatch(*catalog_, written, replace_all);
  }
  if (!changes) {
    *failed_itself = true;
    return replace_all ? Stopped("", changes.error().message, stop, watermark_) : After::kGoOn;
  }
  std::optional<LockWanting> wanting(std::in_place, &activity_);
  while (!stop.stop_requested()) {
    const auto applied = apply(*changes);
    if (applied) {
      trouble_.Succeeded(watermark_);
      return After::kGoOn;
    }
    const PgError& error = applied.error();
    const ApplyReaction reaction = ReactionTo(error);
    if (reaction == ApplyReaction::kAtOnce) continue;
    wanting.reset();
    if (reaction == ApplyReaction::kStop) {
      *failed_itself = true;
      if (replace_all) return Stopped(error.sqlstate, error.message, stop, watermark_);
      spdlog::warn("apply: {} {}; trying in smaller parts", error.sqlstate, error.message);
      return After::kGoOn;
    }
    const After after = Overcome(error, stop);
    if (after != After::kGoOn) return after;
    wanting.emplace(&activity_);
  }
  return After::kBegin;
}

// Giving way in each deadlock could go on for ever, where one local transaction after the other locks the
// rows in another order. After the grace the worker gives way no more: then PostgreSQL tells the local one
// 40P01, after its own deadlock_timeout, or the blocker watch ends it.
void ApplyWorker::InsistIfDue(pqxx::work& tx) const {
  if (MonotonicUs() - activity_.wanting_since_us < options_.conflict_grace_ms * 1000) return;
  tx.exec0("SET LOCAL deadlock_timeout = '1min'");
}

PgResult<Done> ApplyWorker::ApplyBatch(const std::vector<TableChange>& changes,
                                       const Transactions& transactions, GlobalT closed_t) {
  const bool durable = DurableIsDue();
  const bool joined = joining_ && closed_t >= complete_t_;
  auto applied = session_.Transaction([&](pqxx::work& tx) {
    InsistIfDue(tx);
    RunStatements(tx, changes);
    own_.Resolve(tx, transactions);
    tx.exec_params1(kEndBatch, watermark_, closed_t, durable, joined);
  });
  if (!applied) return applied;
  watermark_ = closed_t;
  if (joined) joining_ = false;
  if (durable) {
    durable_ = closed_t;
    durable_at_us_ = MonotonicUs();
  }
  Report();
  return applied;
}

// Statements without a name: code of a table's owner could put another one in the place of a prepared one.
void ApplyWorker::RunStatements(pqxx::work& tx, const std::vector<TableChange>& changes) {
  const auto run = [&](const CapturedTable& table, const char* what, const std::string& arrays) {
    tx.exec_params1("SELECT psp.apply_" + std::string(what) + "_" + std::to_string(table.table_id) + "($1)",
                    Binary(arrays));
  };
  for (const TableChange& change : changes) {
    if (!change.delete_keys.empty()) run(*change.table, "delete", change.delete_keys);
    if (change.upsert_values.empty()) continue;
    run(*change.table, change.replace ? "insert" : "upsert", change.upsert_values);
  }
}

ApplyWorker::After ApplyWorker::ApplyCopy(const ApplyStep& step, std::stop_token stop) {
  const auto apply = [&](const std::vector<TableChange>& changes) {
    return session_.Transaction([&](pqxx::work& tx) {
      InsistIfDue(tx);
      if (step.copy_begins) {
        for (const auto& [id, table] : catalog_->tables) {
          tx.exec1("SELECT psp.apply_clear_" + std::to_string(id) + "()");
        }
      }
      RunStatements(tx, changes);
      if (!step.copy_is_complete) {
        tx.exec1(kResetSession);
        return;
      }
      tx.exec_params1(kEndBatch, step.closed_t, step.closed_t, false, step.complete_t <= step.closed_t);
    });
  };
  bool failed_itself = false;
  const std::vector<WrittenRows> written = {{step.closed_t, step.copied_rows.get()}};
  After after = ApplyOnce(written, apply, false, &failed_itself, stop);
  if (failed_itself) after = ApplyOnce(written, apply, true, &failed_itself, stop);
  if (after != After::kGoOn) return after;
  copied_rows_ = step.rows_done;
  if (step.copy_is_complete) {
    watermark_ = step.closed_t;
    complete_t_ = step.complete_t;
    joining_ = watermark_ < complete_t_;
  }
  Report();
  return After::kGoOn;
}

bool ApplyWorker::DurableIsDue() const {
  return !joining_ && durable_ < watermark_ &&
         MonotonicUs() - durable_at_us_ >= options_.ack_interval_ms * 1000;
}

ApplyWorker::After ApplyWorker::MakeDurable(std::stop_token stop) {
  if (joining_ || durable_ >= watermark_) return After::kGoOn;
  const auto flushed = session_.Transaction(
      [&](pqxx::work& tx) { tx.exec_params1(kEndBatch, watermark_, watermark_, true, false); });
  if (!flushed) return Overcome(flushed.error(), stop);
  durable_ = watermark_;
  durable_at_us_ = MonotonicUs();
  trouble_.Succeeded(watermark_);
  Report();
  return After::kGoOn;
}

void ApplyWorker::Report() {
  report_(ApplyProgress{generation_, watermark_, std::max<GlobalT>(durable_, 0), copied_rows_, joining_});
}

}  // namespace psp
