#include "mrv/worker_session.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "common/clock.h"
#include "embedded/mrv_sql.h"

namespace psp::mrv {
namespace {

constexpr std::int64_t kWriteEveryUs = 1'000'000;

// In a deadlock the worker's detector must come first, and end the worker. Only superusers may set it.
constexpr const char* kFirstInDeadlocks = R"(DO $$ BEGIN
  SET deadlock_timeout = '20ms';
EXCEPTION WHEN insufficient_privilege THEN NULL; END $$)";

// No such schema, table, function or MRV: there is none yet, or it has just been dropped.
constexpr std::array<std::string_view, 4> kNotThere = {"3F000", "42P01", "42883", "42704"};

bool IsNotThere(const std::string& sqlstate) {
  return std::find(kNotThere.begin(), kNotThere.end(), sqlstate) != kNotThere.end();
}

// It met another transaction, and tries again in its next round.
bool IsConflict(const std::string& sqlstate) {
  return sqlstate == "40001" || sqlstate == "40P01" || sqlstate == "55P03";
}

}  // namespace

// synchronous_commit: a worker would hold its locks while it waits for the disk. If a crash takes the change,
// the value is as it was before. The crash then also takes each transaction that used the new records,
// because what is on the disk includes everything before it.
WorkerSession::WorkerSession(const MrvSettings& settings, std::string worker, int runner)
    : worker_(std::move(worker)),
      runner_(runner),
      counts_(CountsOf(worker_)),
      session_({.conninfo = settings.database,
                .application_name = "psp mrv " + worker_ + " " + std::to_string(runner),
                .settings = {"SET search_path = pg_catalog", "SET synchronous_commit = off",
                             std::string(kFirstInDeadlocks),
                             "SET lock_timeout = " + std::to_string(settings.lock_timeout_ms)}}) {
  Prepare("write_self", sql::kWorkerWriteSelf);
}

void WorkerSession::WriteSelf() {
  const std::int64_t now_us = MonotonicUs();
  if (now_us - written_us_ < kWriteEveryUs || !connected()) return;
  written_us_ = now_us;
  Call("write_self", worker_, runner_, static_cast<int>(getpid()), rounds_, actions_, aborts_, last_error_);
}

void WorkerSession::Failed(const std::string& name, const PgError& error) {
  if (IsNotThere(error.sqlstate)) {
    spdlog::debug("{} {}: {}: {}", worker_, runner_, name, error.message);
  } else if (IsConflict(error.sqlstate)) {
    ++aborts_;
    ++counts_.conflicts;
    spdlog::debug("{} {}: {}: {}", worker_, runner_, name, error.message);
  } else {
    ++counts_.failures;
    last_error_ = name + ": " + error.message;
    if (logged_.First(name + error.sqlstate)) spdlog::warn("{} {}: {}", worker_, runner_, *last_error_);
  }
  // A column was dropped and created again with other types: the old plan does not fit any more.
  if (error.sqlstate == "0A000") session_.Close();
}

}  // namespace psp::mrv
