#include "semi_primary/housekeeping/housekeeper.h"

#include <algorithm>
#include <utility>

#include "common/clock.h"
#include "common/this_database.h"
#include "embedded/housekeeping_sql.h"
#include "semi_primary/housekeeping/epoch_store.h"
#include "semi_primary/housekeeping/status_json.h"

namespace psp::sp {
namespace {

constexpr std::int64_t kTroubleWaitMs = 500;
constexpr std::int64_t kAlignEveryUs = 5'000'000;
constexpr std::int64_t kFollowEveryUs = 20'000'000;  // a query for each sequence
constexpr std::int64_t kWatchEveryUs = 600'000'000;
constexpr std::int64_t kCountEveryUs = 60'000'000;
constexpr std::int32_t kNotNow = -1;
constexpr std::string_view kFirstUuid = "00000000-0000-0000-0000-000000000000";

}  // namespace

Housekeeper::Housekeeper(const std::string& conninfo, bool views_mode, std::int64_t request_retention_s)
    : conninfo_(conninfo),
      views_mode_(views_mode),
      request_retention_s_(request_retention_s),
      session_(ClaimingSession(conninfo)),
      sequences_(&session_),
      schema_(&session_) {
  session_.Prepare("write_status", std::string(sql::kWriteDaemonStatus));
  session_.Prepare("write_losses", std::string(sql::kWriteLossReport));
  session_.Prepare("forget_watermarks", "SELECT psp.forget_watermarks()");
  if (views_mode) return;
  session_.Prepare("clean", "SELECT psp.clean()");
  session_.Prepare("count_age", "SELECT psp.count_age($1, $2)");
  session_.Prepare("remove_old_requests", "SELECT psp.remove_old_requests($1)");
}

Result<Identity, StartProblem> Housekeeper::Claim(const std::string& name, const std::string& served_at) {
  auto identity = ClaimDatabase(&session_, {conninfo_, name, served_at, views_mode_});
  if (identity) database_ = identity->database;
  return identity;
}

void Housekeeper::Start(std::function<void(const EpochStarts&)> on_saved) {
  on_saved_ = std::move(on_saved);
  thread_ = std::jthread([this](std::stop_token stop) { Run(stop); });
}

void Housekeeper::Stop() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

void Housekeeper::SetStatus(const DaemonStatus& status) {
  const std::lock_guard lock(mutex_);
  status_ = status;
}

void Housekeeper::SetLosses(Losses losses) {
  const std::lock_guard lock(mutex_);
  unwritten_losses_ = std::move(losses);
}

void Housekeeper::SaveEpochs(const EpochStarts& epochs) {
  const std::lock_guard lock(mutex_);
  unsaved_ = epochs;
  wake_up_.notify_one();
}

void Housekeeper::Run(std::stop_token stop) {
  std::int64_t written_us = MonotonicUs();
  while (!stop.stop_requested()) {
    std::optional<EpochStarts> unsaved;
    {
      std::unique_lock lock(mutex_);
      wake_up_.wait_for(lock, stop, std::chrono::seconds(1), [this] { return unsaved_.has_value(); });
      unsaved = unsaved_;
    }
    if (!session_.connected()) {
      sequences_.MakeDue();  // PostgreSQL may have crashed
      sure_from_generation_ = last_written_.generation + 1;
      if (!ConnectToDatabase(session_, database_, stop)) return;
    }
    if (unsaved && !TrySaveEpochs(*unsaved)) WaitOrStop(stop, kTroubleWaitMs);
    if (unsaved && !stop.stop_requested()) continue;
    const std::int64_t now_us = MonotonicUs();
    WriteStatus(static_cast<double>(now_us - written_us) / 1e6);
    written_us = now_us;
  }
}

bool Housekeeper::TrySaveEpochs(const EpochStarts& epochs) {
  const auto saved = psp::sp::SaveEpochs(session_, epochs);
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

void Housekeeper::WriteStatus(double seconds) {
  DaemonStatus now;
  Losses losses;
  {
    const std::lock_guard lock(mutex_);
    now = status_;
    losses = std::exchange(unwritten_losses_, {});
  }
  if (now.generation < sure_from_generation_) now.lacks_own = true;
  const std::string json = StatusJson(now, last_written_, seconds, schema_.warnings());
  const auto written = session_.Autocommit([&](pqxx::nontransaction& tx) {
    tx.exec_prepared("write_status", json);
    if (!losses.report.empty()) tx.exec_prepared("write_losses", losses.report, losses.catalog);
    tx.exec_prepared("forget_watermarks");
    if (!views_mode_) tx.exec_prepared("clean");
  });
  if (!written) {
    if (logged_.First(written.error().message)) spdlog::warn("status: {}", written.error().message);
    return;
  }
  last_written_ = now;
  const bool is_well = now.state == "streaming" || now.state == "catchup";
  if (!is_well || !now.has_caught_up) return sequences_.MakeDue();
  sequences_.AdvanceIfDue(now.closed_t);
  if (const std::int64_t now_us = MonotonicUs(); now_us >= follow_at_us_) {
    follow_at_us_ = now_us + kFollowEveryUs;
    sequences_.Follow();
  }
  LookAfterSchema();
  if (!views_mode_) KeepRequests();
}

void Housekeeper::CountAge(std::int64_t now_us) {
  // A machine that has slept does not make requests older.
  const std::int64_t passed_us = std::min(now_us - counted_us_.value_or(now_us), 2 * kCountEveryUs);
  const auto newest = session_.Autocommit([&](pqxx::nontransaction& tx) {
    return tx.exec_prepared1("count_age", static_cast<double>(passed_us) / 1e6, request_retention_s_)[0]
        .as<std::int32_t>(kNotNow);
  });
  if (!newest) {
    if (logged_.First(newest.error().message)) spdlog::warn("requests: {}", newest.error().message);
    return;
  }
  if (*newest == kNotNow) return;
  counted_us_ = now_us;
  if (std::exchange(removed_generation_, *newest) != *newest) request_position_ = kFirstUuid;
}

void Housekeeper::KeepRequests() {
  const std::int64_t now_us = MonotonicUs();
  if (now_us >= count_at_us_ && request_position_.empty()) {
    count_at_us_ = now_us + kCountEveryUs;
    CountAge(now_us);
  }
  if (request_position_.empty()) return;
  const auto last = session_.Autocommit([&](pqxx::nontransaction& tx) {
    return tx.exec_prepared1("remove_old_requests", request_position_)[0].as<std::string>("");
  });
  if (last) {
    request_position_ = *last;
  } else if (logged_.First(last.error().message)) {
    spdlog::warn("requests: {}", last.error().message);
  }
}

void Housekeeper::LookAfterSchema() {
  const std::int64_t now_us = MonotonicUs();
  const bool thoroughly = now_us >= watch_at_us_;
  if (now_us >= align_at_us_) {
    align_at_us_ = now_us + kAlignEveryUs;
    if (!sequences_.Align(thoroughly)) return;
  }
  if (!thoroughly) return;
  watch_at_us_ = now_us + kWatchEveryUs;
  schema_.LookForChanges();
}

}  // namespace psp::sp
