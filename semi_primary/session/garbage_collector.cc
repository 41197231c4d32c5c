#include "semi_primary/session/garbage_collector.h"

#include <algorithm>

#include "common/clock.h"
#include "common/log.h"
#include "common/this_database.h"

namespace psp::sp {
namespace {

constexpr std::int64_t kForgetEveryMs = 60'000;

std::string Interval(std::int64_t ms) { return std::to_string(ms) + " milliseconds"; }

}  // namespace

GarbageCollector::GarbageCollector(const Options& options)
    : options_(options),
      session_({.conninfo = options.conninfo,
                .application_name = "psp garbage collector",
                .settings = {"SET synchronous_commit = off", "SET search_path = pg_catalog",
                             "SET session_replication_role = replica", "SET row_security = off",
                             "SET lock_timeout = '1s'"}}),
      running_(options.running_timeout_ms * 1000),
      finished_(options.forget_after_ms * 1000) {
  session_.Prepare("collect",
                   "SELECT psp.collect_garbage($1::xid8), pg_snapshot_xmax(pg_current_snapshot())");
  session_.Prepare("forget", "SELECT psp.forget($1::xid8, $2::interval)");
}

void GarbageCollector::Start() {
  thread_ = std::jthread([this](std::stop_token stop) { Run(stop); });
}

void GarbageCollector::Stop() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

void GarbageCollector::Run(std::stop_token stop) {
  forgot_us_ = MonotonicUs();
  while (!WaitOrStop(stop, options_.interval_ms)) {
    if (!session_.connected() && !ConnectToDatabase(session_, options_.database, stop)) return;
    Collect();
    ForgetIfDue();
  }
}

void GarbageCollector::Collect() {
  const auto collected = session_.Autocommit([&](pqxx::nontransaction& tx) {
    const std::int64_t began_us = MonotonicUs();
    const pqxx::row found = tx.exec_prepared1("collect", std::to_string(running_.OldBelow(began_us)));
    const std::int64_t now_us = MonotonicUs();
    running_.Note(found[1].as<std::uint64_t>(), now_us);
    finished_.Note(found[1].as<std::uint64_t>(), now_us);
    return found[0].as<std::int64_t>();
  });
  if (!collected) return spdlog::warn("garbage collector: {}", collected.error().message);
  if (*collected > 0) spdlog::debug("garbage collector: {} temporary rows", *collected);
}

void GarbageCollector::ForgetIfDue() {
  const std::int64_t every_ms =
      std::max(options_.interval_ms, std::min(kForgetEveryMs, options_.forget_after_ms));
  if (MonotonicUs() - forgot_us_ < every_ms * 1000) return;
  forgot_us_ = MonotonicUs();
  const std::string old_below = std::to_string(finished_.OldBelow(forgot_us_));
  const auto forgotten = session_.Autocommit([&](pqxx::nontransaction& tx) {
    tx.exec_prepared1("forget", old_below, Interval(options_.forget_after_ms));
  });
  if (!forgotten) spdlog::warn("garbage collector: {}", forgotten.error().message);
}

}  // namespace psp::sp
