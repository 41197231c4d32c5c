#include "semi_primary/status_writer.h"

#include <fmt/format.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/pg_binary.h"
#include "common/schema_version.h"
#include "common/this_database.h"
#include "embedded/constants.h"
#include "embedded/semi_primary_sql.h"

namespace psp {
namespace {

constexpr std::int64_t kTroubleWaitMs = 500;
constexpr std::int64_t kAlignUs = 5'000'000;
constexpr std::int64_t kWatchGuardUs = 600'000'000;
constexpr const char* kTaken = "PSP01";  // sql/semi_primary/daemon/claim_database.sql

std::string JsonText(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out.push_back('\\');
    out.push_back(static_cast<unsigned char>(c) < 0x20 ? ' ' : c);
  }
  return out + "\"";
}

EpochStarts ReadEpochs(pqxx::work& tx) {
  EpochStarts epochs;
  for (const pqxx::row& row : tx.exec(std::string(sql::kReadEpochs))) {
    epochs.push_back({pqxx::binarystring(row["history"]).str(), row["start_t"].as<GlobalT>()});
  }
  return epochs;
}

std::string TextOrNull(const std::string& text) { return text.empty() ? "null" : JsonText(text); }

std::string ToJson(const DaemonStatus& now, double commits_per_s, double aborts_per_s,
                   const std::string& warnings) {
  return fmt::format(
      R"({{"state":{},"watermark":{},"closed_t":{},"lag_transactions":{},"lag_ms":{},"commits_total":{},)"
      R"("aborts_total":{},"commits_per_s":{:.1f},"aborts_per_s":{:.1f},"rtt_ms":{:.2f},"epoch":{},"waiting":{},)"
      R"("join_rows_done":{},"join_rows_total":{},"lacks_own":{},"last_error":{},"warnings":{}}})",
      JsonText(now.state), now.watermark, now.closed_t, std::max<GlobalT>(now.closed_t - now.watermark, 0),
      now.lag_ms, now.commits_total, now.aborts_total, commits_per_s, aborts_per_s, now.rtt_ms, now.epoch,
      now.waiting, now.join_rows_done, now.join_rows_total, now.lacks_own, TextOrNull(now.last_error),
      TextOrNull(warnings));
}

}  // namespace

StatusWriter::StatusWriter(const std::string& conninfo, bool views_mode)
    : conninfo_(conninfo),
      views_mode_(views_mode),
      session_({.conninfo = conninfo,
                .application_name = "psp semi-primary",
                .settings = {"SET synchronous_commit = off", "SET search_path = pg_catalog",
                             std::string(sql::kClaimDatabase)}}) {
  session_.Prepare("write_status", std::string(sql::kWriteDaemonStatus));
  if (!views_mode) session_.Prepare("clean", "SELECT psp.clean()");
  session_.Prepare("advance_sequences", std::string(sql::kAdvanceSequences));
  session_.Prepare("align_sequences", "SELECT psp.align_sequences($1)");
  session_.Prepare("guard_warnings", "SELECT psp.guard_warnings()");
}

Result<Identity, StartProblem> StatusWriter::Open(const std::string& name, const std::string& served_at) {
  using Kind = StartProblem::Kind;
  const std::string mode = views_mode_ ? "views" : "native";
  const auto connected = session_.Connect();
  if (!connected) {
    if (connected.error().sqlstate == kTaken) return StartProblem{Kind::kTaken, connected.error().message};
    return CannotConnect(conninfo_, connected.error());
  }
  Identity identity;
  std::string problem;
  const auto read = session_.Transaction([&](pqxx::work& tx) {
    const pqxx::row row = tx.exec1(std::string(sql::kReadIdentity));
    if (row["name"].as<std::string>() != name) {
      problem = "this database belongs to semi-primary \"" + row["name"].as<std::string>() + "\", not to \"" +
                name + "\"";
    } else if (row["mode"].as<std::string>() != mode) {
      problem = "this database is in mode " + row["mode"].as<std::string>() + ", this daemon in mode " + mode;
    } else {
      problem = VersionObjection(row["schema_version"].as<int>(), kSemiPrimarySchemaVersion,
                                 "release it (psp schema release) and let it adopt or join again");
    }
    identity.cluster_id = pqxx::binarystring(row["cluster_id"]).str();
    identity.sp_id = row["sp_id"].as<SpId>();
    identity.token = row["token"].as<std::string>();
    identity.database = row["database"].as<std::string>();
    database_ = identity.database;
    identity.watermark = row["watermark"].as<GlobalT>();
    identity.joining = row["joining"].as<bool>();
    identity.may_lack_own = row["may_lack_own"].as<bool>();
    if (problem.empty()) {
      identity.epochs = ReadEpochs(tx);
      tx.exec1("SELECT psp.refresh_guards()");
      WriteServedAt(tx, served_at);
    }
  });
  if (!read) {
    if (read.error().sqlstate == "42P01") {
      return StartProblem{
          Kind::kConfiguration,
          "this is no semi-primary's database: psp schema adopt or psp schema join makes it one"};
    }
    return CannotStart("psp.identity cannot be read: ", read.error());
  }
  if (!problem.empty()) return StartProblem{Kind::kConfiguration, problem};
  return identity;
}

void StatusWriter::WriteServedAt(pqxx::work& tx, const std::string& served_at) const {
  if (!views_mode_) {
    tx.exec_params("UPDATE psp.identity SET hook_conninfo = $1 WHERE hook_conninfo <> $1", served_at);
    return;
  }
  tx.exec_params("UPDATE psp.identity SET client_endpoint = $1 WHERE client_endpoint IS DISTINCT FROM $1",
                 served_at);
  const auto pending = tx.exec1("SELECT psp.recover()")[0].as<std::int64_t>();
  if (pending > 0) spdlog::info("{} transactions are pending: the primary's log will tell", pending);
}

void StatusWriter::Start(std::function<void(const EpochStarts&)> on_saved) {
  on_saved_ = std::move(on_saved);
  thread_ = std::jthread([this](std::stop_token stop) { Run(stop); });
}

void StatusWriter::Stop() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

void StatusWriter::Set(const DaemonStatus& status) {
  const std::lock_guard lock(mutex_);
  status_ = status;
}

void StatusWriter::SaveEpochs(const EpochStarts& epochs) {
  const std::lock_guard lock(mutex_);
  unsaved_ = epochs;
  wake_up_.notify_one();
}

void StatusWriter::Run(std::stop_token stop) {
  std::int64_t written_us = MonotonicUs();
  while (!stop.stop_requested()) {
    std::optional<EpochStarts> unsaved;
    {
      std::unique_lock lock(mutex_);
      wake_up_.wait_for(lock, stop, std::chrono::seconds(1), [this] { return unsaved_.has_value(); });
      unsaved = unsaved_;
    }
    if (!session_.connected()) {
      sequences_due_ = true;  // PostgreSQL may have crashed
      sure_from_generation_ = last_written_.generation + 1;
      if (!ConnectToDatabase(session_, database_, stop)) return;
    }
    if (unsaved && !Save(*unsaved)) WaitOrStop(stop, kTroubleWaitMs);
    if (unsaved && !stop.stop_requested()) continue;
    const std::int64_t now_us = MonotonicUs();
    Write(static_cast<double>(now_us - written_us) / 1e6);
    written_us = now_us;
  }
}

bool StatusWriter::Save(const EpochStarts& epochs) {
  ArrayWriter histories(kOidUuid);
  ArrayWriter starts(kOidInt8);
  for (const EpochStart& epoch : epochs) {
    histories.Add(std::string_view(epoch.history));
    starts.AddInt8(epoch.start_t);
  }
  const auto saved = session_.Transaction([&](pqxx::work& tx) {
    tx.exec0("SET LOCAL synchronous_commit = on");
    tx.exec0("DELETE FROM psp.epochs");
    tx.exec_params0(std::string(sql::kSaveEpochs), Binary(histories.Finish()), Binary(starts.Finish()));
  });
  if (!saved) {
    if (logged_.First(saved.error().message)) spdlog::warn("epochs: {}", saved.error().message);
    return false;
  }
  {
    const std::lock_guard lock(mutex_);
    if (unsaved_ == epochs) unsaved_.reset();
  }
  on_saved_(epochs);
  return true;
}

void StatusWriter::Write(double seconds) {
  DaemonStatus now;
  {
    const std::lock_guard lock(mutex_);
    now = status_;
  }
  if (now.generation < sure_from_generation_) now.lacks_own = true;
  const double elapsed_s = std::max(seconds, 0.001);
  const std::string json =
      ToJson(now, static_cast<double>(now.commits_total - last_written_.commits_total) / elapsed_s,
             static_cast<double>(now.aborts_total - last_written_.aborts_total) / elapsed_s, warnings_);
  const auto written = session_.Autocommit([&](pqxx::nontransaction& tx) {
    tx.exec_prepared("write_status", json);
    if (!views_mode_) tx.exec_prepared("clean");
  });
  if (!written) {
    if (logged_.First(written.error().message)) spdlog::warn("status: {}", written.error().message);
    return;
  }
  last_written_ = now;
  if (now.state != "streaming") sequences_due_ = true;
  if (sequences_due_ && now.state == "streaming") AdvanceSequences(now.closed_t);
  if (now.state == "streaming") LookAfterSchema();
}

// Sequences that setval has moved out of their class, and what no trigger can refuse.
void StatusWriter::LookAfterSchema() {
  const std::int64_t now_us = MonotonicUs();
  const bool thoroughly = now_us >= watch_guard_at_us_;
  if (now_us >= align_at_us_) {
    align_at_us_ = now_us + kAlignUs;
    const auto moved = session_.Autocommit(
        [&](pqxx::nontransaction& tx) { return tx.exec_prepared("align_sequences", thoroughly); });
    if (!moved) return spdlog::warn("sequences: {}", moved.error().message);
    const int count = (*moved)[0][0].as<int>();
    if (count > 0) spdlog::warn("{} sequences were set to numbers of other semi-primaries: set right", count);
  }
  if (!thoroughly) return;
  watch_guard_at_us_ = now_us + kWatchGuardUs;
  const auto found =
      session_.Autocommit([](pqxx::nontransaction& tx) { return tx.exec_prepared("guard_warnings"); });
  if (!found) return spdlog::warn("schema: {}", found.error().message);
  std::string warnings = (*found)[0][0].as<std::string>("");
  if (warnings != warnings_ && !warnings.empty()) spdlog::warn("schema: {}", warnings);
  warnings_ = std::move(warnings);
}

// Stays due while W is behind, or while somebody who has drawn from a sequence that must move is in a
// transaction.
void StatusWriter::AdvanceSequences(GlobalT closed_t) {
  const auto moved = session_.Autocommit(
      [&](pqxx::nontransaction& tx) { return tx.exec_prepared("advance_sequences", closed_t); });
  if (!moved) return spdlog::warn("sequences: {}", moved.error().message);
  if (moved->empty()) return;
  sequences_due_ = false;
  const int count = (*moved)[0][0].as<int>();
  if (count > 0) spdlog::info("{} sequences moved past the numbers that this semi-primary had drawn", count);
}

}  // namespace psp
