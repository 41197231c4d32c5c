#include "primary/publish/housekeeper.h"

#include "common/log.h"
#include "common/pg_binary.h"
#include "embedded/publish_sql.h"
#include "primary/publish/disk_space.h"
#include "writeset/load_catalog.h"

namespace psp::primary {
namespace {

constexpr std::size_t kQueueItems = 16;
constexpr std::int64_t kTroubleWaitMs = 500;

// A statement that takes int4[] and int8[].
void WritePositions(pqxx::transaction_base& tx, std::string_view statement,
                    const std::map<SpId, GlobalT>& positions) {
  if (positions.empty()) return;
  ArrayWriter sp_ids(kOidInt4);
  ArrayWriter numbers(kOidInt8);
  for (const auto& [sp_id, global_t] : positions) {
    sp_ids.AddInt4(static_cast<std::int32_t>(sp_id));
    numbers.AddInt8(global_t);
  }
  tx.exec_params(std::string(statement), Binary(sp_ids.Finish()), Binary(numbers.Finish()));
}

void WritePresence(pqxx::transaction_base& tx, const std::map<SpId, Presence>& presence) {
  if (presence.empty()) return;
  ArrayWriter sp_ids(kOidInt4);
  ArrayWriter connected(kOidInt4);
  ArrayWriter ago_ms(kOidInt8);
  for (const auto& [sp_id, one] : presence) {
    sp_ids.AddInt4(static_cast<std::int32_t>(sp_id));
    connected.AddInt4(one.is_connected ? 1 : 0);
    ago_ms.AddInt8(one.heard_us_ago ? *one.heard_us_ago / 1000 : -1);
  }
  tx.exec_params(std::string(sql::kWritePresence), Binary(sp_ids.Finish()), Binary(connected.Finish()),
                 Binary(ago_ms.Finish()));
}

}  // namespace

std::vector<RegistryRow> ReadRegistry(pqxx::transaction_base& tx) {
  std::vector<RegistryRow> registry;
  for (const pqxx::row& row : tx.exec(std::string(sql::kRegistry))) {
    std::optional<GlobalT> join_t;
    if (!row[4].is_null()) join_t = row[4].as<GlobalT>();
    registry.push_back(
        {row[0].as<SpId>(), row[1].as<std::string>(), row[2].as<bool>(), row[3].as<GlobalT>(), join_t});
  }
  return registry;
}

Housekeeper::Housekeeper(std::unique_ptr<PgSession> session, const Options& options)
    : options_(options),
      work_(kQueueItems),
      reports_(kQueueItems),
      session_(std::move(session)),
      sweeper_(options.retention),
      thread_([this](std::stop_token stop) { Run(std::move(stop)); }) {}

Housekeeper::~Housekeeper() {
  thread_.request_stop();
  reports_.Close();
}

bool Housekeeper::EnsureConnected(std::stop_token stop) {
  while (!session_->connected()) {
    if (!session_->ConnectUntilStopped(stop)) return false;
    const PgResult<Done> locked = options_.connect(*session_);
    if (locked.ok()) break;
    session_->Close();
    // With an SQLSTATE it is PostgreSQL's error, such as a cancel: then the lock's owner is not known yet.
    if (locked.error().reaction == PgReaction::kAbort && locked.error().sqlstate.empty()) {
      spdlog::error("{}", locked.error().message);
      options_.on_usurped();
      return false;
    }
    if (WaitOrStop(stop, kTroubleWaitMs)) return false;
  }
  return true;
}

void Housekeeper::Run(std::stop_token stop) {
  LogOnce logged;
  while (auto work = work_.Pop(stop)) {
    bool done = false;
    while (!done && !stop.stop_requested()) {
      if (!EnsureConnected(stop)) return;
      auto report = Do(*work, stop);
      if (!report) return;
      done = report->ok();
      if (done) {
        reports_.Push(std::move(report->value()));
        continue;
      }
      const PgError& error = report->error();
      if (logged.First(error.message))
        spdlog::warn("housekeeping failed: {} {}", error.sqlstate, error.message);
      if (WaitOrStop(stop, kTroubleWaitMs)) return;
    }
  }
}

std::optional<PgResult<HouseReport>> Housekeeper::Do(const HouseWork& work, std::stop_token stop) {
  // Before the work, whose COMMIT may wait for a standby.
  if (const auto observed = options_.observe_copies(*session_); !observed.ok()) {
    return PgResult<HouseReport>(observed.error());
  }
  PgResult<HouseReport> report = Write(work);
  if (!report.ok()) return report;
  const auto proof = options_.prove(*session_, stop);
  if (!proof) return std::nullopt;
  return proof->ok() ? std::move(report) : PgResult<HouseReport>(proof->error());
}

PgResult<HouseReport> Housekeeper::Write(const HouseWork& work) {
  Sweeper sweeper = sweeper_;
  auto done = session_->Transaction([&](pqxx::work& tx) {
    HouseReport report;
    report.number = work.number;
    WritePositions(tx, sql::kBeginJoins, work.joins);
    WritePositions(tx, sql::kAcknowledge, work.acks);
    WritePresence(tx, work.presence);
    for (const auto& [sp_id, json] : work.loss_reports) {
      tx.exec_params(std::string(sql::kWriteLossReport), sp_id, json);
    }
    if (work.losses) tx.exec_params(std::string(sql::kWriteLosses), *work.losses);
    if (work.truncate_log || work.sweep) sweeper.AdvanceClock(tx);
    if (work.sweep) report.more_to_sweep = sweeper.Sweep(tx);
    if (work.truncate_log) {
      WriteDiskSpace(tx);
      report.more_to_truncate = tx.exec1(std::string(sql::kTruncateLog))[1].as<bool>();
      tx.exec_params(std::string(sql::kSettle), work.settled_t);
      const pqxx::row log = tx.exec1(std::string(sql::kLogSize));
      report.log = {log[0].as<std::int64_t>(), log[1].as<std::int64_t>()};
    }
    report.truncated_t = tx.exec1("SELECT truncated_t FROM psp.log_start")[0].as<GlobalT>();
    report.registry = ReadRegistry(tx);
    report.tables = LoadKnownTables(tx);
    return report;
  });
  if (done.ok()) sweeper_ = sweeper;
  return done;
}

}  // namespace psp::primary
