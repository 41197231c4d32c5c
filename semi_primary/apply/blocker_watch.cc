#include "semi_primary/apply/blocker_watch.h"

#include <vector>

#include "common/clock.h"
#include "common/log.h"
#include "common/pg_binary.h"
#include "common/this_database.h"
#include "embedded/apply_sql.h"

namespace psp::sp {
namespace {

constexpr std::int64_t kLookEveryMs = 100;
constexpr std::int64_t kSuspiciousUs = 20'000;  // a batch that takes longer may be blocked

}  // namespace

BlockerWatch::BlockerWatch(const Options& options, ApplyActivity& activity, const CommitsInFlight& in_flight)
    : database_(options.database),
      activity_(activity),
      in_flight_(in_flight),
      session_({.conninfo = options.conninfo, .application_name = "psp blocker watch", .settings = {}}),
      clocks_({.grace_us = options.conflict_grace_ms * 1000,
               .commit_us = options.commit_timeout_ms * 1000,
               .look_every_us = kLookEveryMs * 1000}),
      triggers_(options.trigger_timeout_ms * 1000) {
  session_.Prepare("blockers", std::string(sql::kApplyBlockers));
  session_.Prepare("end_blocker", std::string(sql::kApplyEndBlocker));
  session_.Prepare("end_triggers", std::string(sql::kApplyEndTriggers));
}

void BlockerWatch::Start() {
  thread_ = std::jthread([this](std::stop_token stop) { Run(stop); });
}

void BlockerWatch::Stop() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

void BlockerWatch::Run(std::stop_token stop) {
  while (!WaitOrStop(stop, kLookEveryMs)) {
    const std::int64_t since_us = activity_.wanting_since_us;
    if (since_us == 0 || MonotonicUs() - since_us < kSuspiciousUs) continue;
    if (!session_.connected() && !ConnectToDatabase(session_, database_, stop)) continue;
    LookForBlockers(since_us);
    EndTriggers(since_us);
  }
}

void BlockerWatch::LookForBlockers(std::int64_t batch) {
  ArrayWriter in_flight(kOidUuid);
  for (const TxId& id : in_flight_.Ids()) in_flight.AddUuid(id);
  const auto found = session_.Autocommit([&](pqxx::nontransaction& tx) {
    return tx.exec_prepared("blockers", activity_.backend_pid.load(), Binary(in_flight.Finish()));
  });
  if (!found) return Failed(found.error());
  logged_.Forget(failed_);
  std::vector<Blocker> blockers;
  for (const pqxx::row& row : *found) {
    blockers.push_back({.pid = row[0].as<int>(),
                        .xact_start = row[1].as<std::string>(),
                        .state = row[2].as<std::string>(""),
                        .is_root = row[3].as<bool>(),
                        .is_in_deadlock = row[4].as<bool>(),
                        .rollback = row[5].as<std::string>(""),
                        .is_committing = row[6].as<bool>()});
  }
  for (const Blocker& blocker : clocks_.TakeOverdue(MonotonicUs(), batch, blockers)) End(blocker);
}

// The watch soon looks again: an error that comes each time is logged once.
void BlockerWatch::Failed(const PgError& error) {
  failed_ = error.sqlstate + " " + error.message;
  if (logged_.First(failed_)) spdlog::warn("blocker watch: {}", failed_);
}

void BlockerWatch::EndTriggers(std::int64_t batch) {
  const auto [overdue, again] = triggers_.TakeOverdue(MonotonicUs(), batch);
  const std::int64_t ended_before = activity_.ended_batch;
  if (!overdue.empty()) activity_.ended_batch = batch;  // before the worker has the error
  const auto found = session_.Autocommit([&](pqxx::nontransaction& tx) {
    return tx.exec_prepared("end_triggers", activity_.backend_pid.load(), overdue, again);
  });
  if (!found) return Failed(found.error());
  if (found->empty()) return;
  triggers_.Saw(MonotonicUs(), batch, (*found)[0][0].as<std::string>(""));
  if ((*found)[0][1].as<bool>(false))
    spdlog::warn(
        "{} the apply worker: rows of other servers, or their triggers, took longer than trigger_timeout_ms",
        again ? "ended the session of" : "cancelled");
  else
    activity_.ended_batch = ended_before;
}

void BlockerWatch::End(const Blocker& blocker) {
  const auto ended = session_.Autocommit([&](pqxx::nontransaction& tx) {
    if (!blocker.rollback.empty()) return tx.exec(blocker.rollback).affected_rows() == 0;
    return !tx.exec_prepared("end_blocker", blocker.pid, blocker.xact_start, blocker.again,
                             blocker.is_committing)
                .empty();
  });
  if (!ended) {
    PgError error = ended.error();
    if (!blocker.rollback.empty()) error.message = blocker.rollback + ": " + error.message;
    return Failed(error);
  }
  if (!*ended) return;
  ++ended_;
  if (!blocker.rollback.empty()) {
    return spdlog::warn("{}: the prepared transaction blocked remote ones for longer than conflict_grace_ms",
                        blocker.rollback);
  }
  Log({.text = fmt::format(
           "ended the transaction of backend {} ({}): it blocked remote transactions for longer than {}",
           blocker.pid, blocker.state,
           blocker.is_committing ? "a COMMIT can take, and its request has not come" : "conflict_grace_ms"),
       .event = "blocker_ended",
       .fields = {LogField::Number("pid", blocker.pid)}});
}

}  // namespace psp::sp
