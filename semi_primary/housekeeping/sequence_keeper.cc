#include "semi_primary/housekeeping/sequence_keeper.h"

#include <string>
#include <utility>

#include "common/log.h"
#include "embedded/housekeeping_sql.h"

namespace psp::sp {

SequenceKeeper::SequenceKeeper(PgSession* session) : session_(*session) {
  session_.Prepare("advance_sequences", std::string(sql::kAdvanceSequences));
  session_.Prepare("follow_sequences", std::string(sql::kFollowSequences));
  session_.Prepare("align_sequences", "SELECT psp.align_sequences($1)");
}

void SequenceKeeper::AdvanceIfDue(GlobalT closed_t) {
  if (!is_due_) return;
  const auto moved = session_.Autocommit(
      [&](pqxx::nontransaction& tx) { return tx.exec_prepared("advance_sequences", closed_t); });
  if (!moved) {
    if (!std::exchange(has_warned_, true)) {
      spdlog::warn("sequences may stand at numbers that are taken; tried again until it succeeds: {}",
                   moved.error().message);
    }
    return;
  }
  if (moved->empty()) return;
  is_due_ = false;
  has_warned_ = false;
  followed_t_ = closed_t;
  const int count = (*moved)[0][0].as<int>();
  if (count > 0) spdlog::info("{} sequences moved past the numbers that this semi-primary had drawn", count);
}

void SequenceKeeper::Follow() {
  if (is_due_) return;
  const auto looked = session_.Autocommit(
      [&](pqxx::nontransaction& tx) { return tx.exec_prepared("follow_sequences", followed_t_); });
  if (!looked) {  // somebody who has drawn from one is in a transaction, for example
    spdlog::info("sequences, tried again: {}", looked.error().message);
    return;
  }
  if (!looked->empty()) followed_t_ = (*looked)[0][0].as<GlobalT>();
}

bool SequenceKeeper::Align(bool thoroughly) {
  const auto moved = session_.Autocommit(
      [&](pqxx::nontransaction& tx) { return tx.exec_prepared("align_sequences", thoroughly); });
  if (!moved) {
    spdlog::warn("sequences: {}", moved.error().message);
    return false;
  }
  const int count = (*moved)[0][0].as<int>();
  if (count > 0) spdlog::warn("{} sequences were set to numbers of other semi-primaries: set right", count);
  return true;
}

}  // namespace psp::sp
