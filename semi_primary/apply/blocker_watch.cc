#include "semi_primary/apply/blocker_watch.h"

#include <condition_variable>
#include <mutex>

#include "common/clock.h"
#include "common/log.h"
#include "embedded/apply_sql.h"

namespace psp {
namespace {

constexpr auto kLookEvery = std::chrono::milliseconds(100);
constexpr std::int64_t kSuspiciousUs = 20'000;  // a statement that runs longer may be blocked

}  // namespace

BlockerWatch::BlockerWatch(const std::string& conninfo, std::int64_t conflict_grace_ms,
                           const ApplyActivity& activity, std::function<bool(int pid)> is_in_hook)
    : conflict_grace_us_(conflict_grace_ms * 1000),
      activity_(activity),
      is_in_hook_(std::move(is_in_hook)),
      session_({.conninfo = conninfo, .application_name = "psp blocker watch", .settings = {}}) {
  session_.Prepare("blockers", std::string(sql::kApplyBlockers));
  session_.Prepare("end_blocker", std::string(sql::kApplyEndBlocker));
}

void BlockerWatch::Start() {
  thread_ = std::jthread([this](std::stop_token stop) { Run(stop); });
}

void BlockerWatch::Stop() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

void BlockerWatch::Run(std::stop_token stop) {
  std::mutex mutex;
  std::condition_variable_any tick;
  std::unique_lock lock(mutex);
  while (!stop.stop_requested()) {
    tick.wait_for(lock, stop, kLookEvery, [] { return false; });
    const std::int64_t since_us = activity_.statement_since_us;
    if (since_us == 0 || MonotonicUs() - since_us < kSuspiciousUs) {
      blocking_since_us_.clear();
    } else if (session_.connected() || session_.ConnectUntilStopped(stop)) {
      Look();
    }
  }
}

void BlockerWatch::Look() {
  const auto found = session_.Autocommit(
      [&](pqxx::nontransaction& tx) { return tx.exec_prepared("blockers", activity_.backend_pid.load()); });
  if (!found) return spdlog::warn("blocker watch: {}", found.error().message);
  const std::int64_t now_us = MonotonicUs();
  std::map<Name, std::int64_t> blocking_since_us;
  for (const pqxx::row& row : *found) {
    const Name name{row[0].as<int>(), row[1].as<std::string>()};
    const auto known = blocking_since_us_.find(name);
    std::int64_t since_us = known == blocking_since_us_.end() ? now_us : known->second;
    if (is_in_hook_(name.first)) {
      since_us = now_us;
    } else if (now_us - since_us >= conflict_grace_us_) {
      End(name, row[2].as<std::string>(""));
      since_us = now_us;
    }
    blocking_since_us.emplace(name, since_us);
  }
  blocking_since_us_ = std::move(blocking_since_us);
}

void BlockerWatch::End(const Name& blocker, const std::string& state) {
  const auto ended = session_.Autocommit([&](pqxx::nontransaction& tx) {
    return tx.exec_prepared("end_blocker", blocker.first, blocker.second);
  });
  if (!ended) return spdlog::warn("blocker watch: {}", ended.error().message);
  spdlog::info(
      "ended the transaction of backend {} ({}): it blocked remote transactions for longer than "
      "conflict_grace_ms",
      blocker.first, state);
}

}  // namespace psp
