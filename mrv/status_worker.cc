#include "mrv/status_worker.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "common/clock.h"
#include "common/log.h"
#include "common/pg_binary.h"
#include "embedded/mrv_sql.h"

namespace psp::mrv {
namespace {

constexpr std::size_t kValuesMax = 100'000;
// A value of which nothing has been heard for so long is not shown any more.
constexpr const char* kForgetValues =
    "DELETE FROM psp_mrv.status WHERE greatest(window_ended, changed_at) < now() - interval '600 s'";
constexpr std::int64_t kClaimEveryMs = 200;

void AddFloat8(std::optional<double> value, ArrayWriter* array) {
  if (!value) return array->AddNull();
  std::string bytes;
  AppendInt64(&bytes, std::bit_cast<std::int64_t>(*value));
  array->Add(std::string_view(bytes));
}

std::vector<LockWait> ReadLockWaits(const pqxx::result& rows) {
  std::vector<LockWait> waits;
  for (const pqxx::row& row : rows) {
    waits.push_back({.value = {.column_id = row[0].as<std::int32_t>(), .key = row[1].as<std::string>()},
                     .waiters = row[2].as<std::int32_t>()});
  }
  return waits;
}

Report ReadReport(const pqxx::row& row) {
  return {.value = {.column_id = row[0].as<std::int32_t>(), .key = row[1].as<std::string>()},
          .commits = row[2].as<std::int64_t>(),
          .aborts = row[3].as<std::int64_t>(),
          .measured = row[4].as<std::int64_t>(),
          .response_ms = row[5].as<double>()};
}

}  // namespace

StatusWorker::StatusWorker(const MrvSettings& settings, WindowBoard* board, std::function<void()> on_serving)
    : settings_(settings),
      board_(board),
      on_serving_(std::move(on_serving)),
      session_(settings, "status", 0),
      outcomes_(kValuesMax) {
  session_.Prepare("claim", "SELECT pg_try_advisory_lock(hashtextextended('psp-mrv', 0))");
  session_.Prepare("look", sql::kWorkerLook);
  session_.Prepare("forget_workers", "DELETE FROM psp_mrv.workers");
  session_.Prepare("lock_waits", "SELECT column_id, key::text, waiters FROM psp_mrv.lock_waits()");
  session_.Prepare("take_outcomes", sql::kWorkerTakeOutcomes);
  session_.Prepare("forget_values", kForgetValues);
  session_.Prepare("write_status", sql::kWorkerWriteStatus);
}

void StatusWorker::Run(std::stop_token stop) {
  while (!stop.stop_requested()) {
    if (!session_.connected() && !Begin(stop)) return;
    const std::int64_t now_us = MonotonicUs();
    if (IsSampling() && now_us >= sample_at_us_) {
      sample_at_us_ = now_us + settings_.lock_sample_interval_ms * 1000;
      SampleLocks();
    }
    if (now_us >= close_at_us_) {
      close_at_us_ = now_us + settings_.window_ms * 1000;
      CloseWindow();
    }
    const std::int64_t next_us = IsSampling() ? std::min(sample_at_us_, close_at_us_) : close_at_us_;
    WaitOrStop(stop, std::max<std::int64_t>((next_us - MonotonicUs()) / 1000, 1));
  }
}

bool StatusWorker::Begin(std::stop_token stop) {
  board_->Withdraw();
  if (!Claim(stop)) return false;
  outcomes_.Close();
  began_us_ = 0;
  close_at_us_ = 0;
  is_installed_ = false;
  on_serving_();
  return true;
}

bool StatusWorker::Claim(std::stop_token stop) {
  bool logged = false;
  while (session_.Connect(stop)) {
    const auto claimed = session_.Call("claim");
    if (claimed && (*claimed)[0][0].as<bool>()) return true;
    if (claimed && !std::exchange(logged, true)) {
      spdlog::info("another psp-mrv serves this database; waiting until it ends");
    }
    if (WaitOrStop(stop, kClaimEveryMs)) return false;
  }
  return false;
}

void StatusWorker::SampleLocks() {
  const auto rows = session_.Call("lock_waits");
  if (rows) outcomes_.AddSample(ReadLockWaits(*rows));
}

bool StatusWorker::IsTrusted(const pqxx::field& other_owner) {
  if (other_owner.is_null()) return true;
  if (!std::exchange(distrust_logged_, true)) {
    spdlog::error("psp_mrv belongs to {}, whose functions would run with a superuser's rights: log in as {}",
                  other_owner.c_str(), other_owner.c_str());
  }
  return false;
}

void StatusWorker::CloseWindow() {
  const auto look = session_.Call("look");
  is_installed_ = look && (*look)[0]["is_installed"].as<bool>() && IsTrusted((*look)[0]["other_owner"]);
  const auto taken = is_installed_ ? session_.Call("take_outcomes") : std::nullopt;
  if (!taken) {
    // No MRV in this database, or no connection: nothing has been heard of anybody.
    board_->Withdraw();
    outcomes_.Close();
    began_us_ = 0;
    return;
  }
  for (const pqxx::row& row : *taken) outcomes_.Add(ReadReport(row));
  DroppedReports() = outcomes_.dropped();
  if (outcomes_.dropped() > 0 && !std::exchange(dropped_logged_, true)) {
    spdlog::warn("more than {} values were reported in a window; the rest is not looked at", kValuesMax);
  }
  const std::int64_t ended_us = (*look)[0]["now_us"].as<std::int64_t>();
  const std::vector<Outcome> outcomes = outcomes_.Close();
  const std::int64_t began_us = std::exchange(began_us_, ended_us);
  if (began_us == 0) {  // the first one: nobody knows how much of it was heard
    session_.Call("forget_workers");
    return;
  }
  if (!WriteStatus(outcomes, began_us, ended_us)) return;
  session_.Call("forget_values");
  session_.CountRound();
  session_.WriteSelf();
  board_->Publish(began_us, ended_us);
}

bool StatusWorker::WriteStatus(const std::vector<Outcome>& outcomes, std::int64_t began_us,
                               std::int64_t ended_us) {
  ArrayWriter columns(kOidInt4);
  ArrayWriter keys(kOidText);
  ArrayWriter commits(kOidInt8);
  ArrayWriter aborts(kOidInt8);
  ArrayWriter responses(kOidFloat8);
  ArrayWriter waiters(kOidFloat8);
  for (const Outcome& outcome : outcomes) {
    columns.AddInt4(outcome.value.column_id);
    keys.Add(std::string_view(outcome.value.key));
    commits.AddInt8(outcome.commits);
    aborts.AddInt8(outcome.aborts);
    AddFloat8(outcome.response_ms, &responses);
    AddFloat8(outcome.lock_waiters, &waiters);
  }
  return session_
      .Call("write_status", began_us, ended_us, Binary(columns.Finish()), Binary(keys.Finish()),
            Binary(commits.Finish()), Binary(aborts.Finish()), Binary(responses.Finish()),
            Binary(waiters.Finish()))
      .has_value();
}

}  // namespace psp::mrv
