#include "semi_primary/apply/own_commits.h"

#include <unordered_set>

#include "common/log.h"
#include "common/pg_binary.h"
#include "embedded/apply_sql.h"

namespace psp {
namespace {

constexpr std::string_view kLockNotAvailable = "55P03";
// Without names, as all statements of the apply worker's session.
constexpr const char* kApplyHere = "SELECT psp.apply($1::pg_catalog.uuid, $2::pg_catalog.int8)";
constexpr const char* kResolve = "SELECT psp.resolve($1::pg_catalog.uuid, $2::pg_catalog.int8)";

}  // namespace

OwnCommits::OwnCommits(PgSession* session, ApplyActivity* activity, bool views_mode)
    : session_(*session), activity_(*activity), views_mode_(views_mode) {}

bool OwnCommits::Prove(std::vector<ApplyTransaction>* transactions, std::stop_token stop) {
  auto missing = Missing(*transactions);
  if (missing && !missing->empty()) {
    const std::unordered_set<GlobalT> unproven(missing->begin(), missing->end());
    for (const ApplyTransaction& transaction : *transactions) {
      if (!transaction.own || !unproven.contains(transaction.global_t)) continue;
      if (!(views_mode_ ? ApplyHere(transaction, stop) : WaitForBackend(transaction, stop))) return false;
    }
    missing = Missing(*transactions);
  }
  if (!missing) {
    spdlog::warn("apply: {}", missing.error().message);
    return false;
  }
  const std::unordered_set<GlobalT> dead(missing->begin(), missing->end());
  for (ApplyTransaction& transaction : *transactions) {
    if (!transaction.own) continue;
    if (!dead.contains(transaction.global_t)) {
      transaction.write_set.reset();
    } else if (transaction.write_set == nullptr) {
      spdlog::warn("own transaction {} must be applied here and its rows are not known: asking for them",
                   transaction.tx_id.ToText());
      return false;
    } else {
      spdlog::info("own transaction {} (global_t {}) was committed and who did it has gone: applying it",
                   transaction.tx_id.ToText(), transaction.global_t);
    }
  }
  return true;
}

void OwnCommits::Resolve(pqxx::work& tx, const std::vector<ApplyTransaction>& transactions) const {
  if (!views_mode_) return;
  for (const ApplyTransaction& transaction : transactions) {
    if (!transaction.own || !transaction.write_set) continue;
    tx.exec_params(kResolve, transaction.tx_id.ToText(), transaction.global_t);
  }
}

PgResult<std::vector<GlobalT>> OwnCommits::Missing(const std::vector<ApplyTransaction>& transactions) {
  ArrayWriter own(kOidInt8);
  for (const ApplyTransaction& transaction : transactions) {
    if (transaction.own) own.AddInt8(transaction.global_t);
  }
  if (own.size() == 0) return std::vector<GlobalT>();
  return session_.Autocommit([&](pqxx::nontransaction& tx) {
    std::vector<GlobalT> missing;
    for (const pqxx::row& row : tx.exec_params(std::string(sql::kApplyMissingProofs), Binary(own.Finish()))) {
      missing.push_back(row[0].as<GlobalT>());
    }
    return missing;
  });
}

// Until no backend is committing it any more. False when stop was requested or the connection was lost.
bool OwnCommits::WaitForBackend(const ApplyTransaction& transaction, std::stop_token stop) {
  while (!stop.stop_requested()) {
    const auto ended = session_.Transaction([&](pqxx::work& tx) {
      tx.exec0("SET LOCAL lock_timeout = '250ms'");  // so that a stop is seen
      tx.exec_params(std::string(sql::kApplyWaitForBackend), transaction.tx_id.ToText());
    });
    if (ended) return true;
    if (ended.error().sqlstate == kLockNotAvailable) continue;
    spdlog::warn("apply: {}", ended.error().message);
    return false;
  }
  return false;
}

// From its temporary rows, if they are there. A client's FOR UPDATE may be in the way, or in that of the
// local worker that is waited for: the blocker watch looks.
bool OwnCommits::ApplyHere(const ApplyTransaction& transaction, std::stop_token stop) {
  const LockWanting wanting(&activity_);
  while (!stop.stop_requested()) {
    const auto applied = session_.Autocommit([&](pqxx::nontransaction& tx) {
      tx.exec_params(kApplyHere, transaction.tx_id.ToText(), transaction.global_t);
    });
    if (applied) return true;
    if (applied.error().reaction == PgReaction::kRetry) continue;
    spdlog::warn("apply: {}", applied.error().message);
    return applied.error().reaction == PgReaction::kAbort;  // its write-set is tried then
  }
  return false;
}

}  // namespace psp
