#include "semi_primary/apply/own_commits.h"

#include <unordered_set>

#include "common/log.h"
#include "common/pg_binary.h"
#include "embedded/apply_sql.h"
#include "semi_primary/apply/reaction.h"

namespace psp {
namespace {

constexpr std::string_view kLockNotAvailable = "55P03";
// Without names, as all statements of the apply worker's session.
constexpr const char* kApplyHere = "SELECT psp.apply($1::pg_catalog.uuid, $2::pg_catalog.int8)";
constexpr const char* kResolve = "SELECT psp.resolve($1::pg_catalog.uuid, $2::pg_catalog.int8)";

}  // namespace

OwnCommits::OwnCommits(PgSession* session, ApplyActivity* activity, bool views_mode)
    : session_(*session), activity_(*activity), views_mode_(views_mode) {}

PgResult<Done> OwnCommits::Prove(std::vector<ApplyTransaction>* transactions, std::stop_token stop) {
  auto missing = Missing(*transactions);
  if (missing && !missing->empty()) {
    const std::unordered_set<GlobalT> unproven(missing->begin(), missing->end());
    for (const ApplyTransaction& transaction : *transactions) {
      if (!transaction.own || !unproven.contains(transaction.global_t)) continue;
      const auto ended = views_mode_ ? ApplyHere(transaction, stop) : WaitForBackend(transaction, stop);
      if (!ended) return ended;
    }
    missing = Missing(*transactions);
  }
  if (!missing) return missing.error();
  const std::unordered_set<GlobalT> dead(missing->begin(), missing->end());
  for (ApplyTransaction& transaction : *transactions) {
    if (!transaction.own) continue;
    if (!dead.contains(transaction.global_t)) {
      transaction.write_set.reset();
    } else if (transaction.write_set == nullptr) {
      return PgError{PgReaction::kReconnect, "",
                     "own transaction " + transaction.tx_id.ToText() +
                         " must be applied here and its rows are not known: asking for them"};
    } else {
      spdlog::info("own transaction {} (global_t {}) was committed and its session has gone: applying it",
                   transaction.tx_id.ToText(), transaction.global_t);
    }
  }
  return Done{};
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

// Until no backend is committing it any more. Another session may hold the same lock, and for as long as it
// likes: so it is waited for while somebody commits, for a moment, and then looked at again.
PgResult<Done> OwnCommits::WaitForBackend(const ApplyTransaction& transaction, std::stop_token stop) {
  const std::string tx_id = transaction.tx_id.ToText();
  while (!stop.stop_requested()) {
    const auto committing = session_.Autocommit([&](pqxx::nontransaction& tx) {
      return tx.exec_params1(std::string(sql::kApplyIsCommitting), tx_id)[0].as<bool>();
    });
    if (!committing) return committing.error();
    if (!*committing) return Done{};
    const auto ended = session_.Transaction([&](pqxx::work& tx) {
      tx.exec0("SET LOCAL lock_timeout = '50ms'");
      tx.exec_params(std::string(sql::kApplyWaitForBackend), tx_id);
    });
    if (ended || ended.error().sqlstate != kLockNotAvailable) return ended;
  }
  return PgError{PgReaction::kReconnect, "", "stopping"};
}

// From its temporary rows, if they are there. A client's FOR UPDATE may be in the way, or in that of the
// local worker that is waited for: the blocker watch looks.
PgResult<Done> OwnCommits::ApplyHere(const ApplyTransaction& transaction, std::stop_token stop) {
  const LockWanting wanting(&activity_);
  while (!stop.stop_requested()) {
    const auto applied = session_.Autocommit([&](pqxx::nontransaction& tx) {
      tx.exec_params(kApplyHere, transaction.tx_id.ToText(), transaction.global_t);
    });
    if (applied) return Done{};
    const ApplyReaction reaction = ReactionTo(applied.error());
    if (reaction == ApplyReaction::kAtOnce) continue;
    if (reaction != ApplyReaction::kStop) return applied.error();
    spdlog::warn("apply: {}", applied.error().message);
    return Done{};  // its write-set is tried then
  }
  return PgError{PgReaction::kReconnect, "", "stopping"};
}

}  // namespace psp
