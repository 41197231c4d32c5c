#include "primary/publish/sweeper.h"

#include <algorithm>
#include <utility>

#include "common/clock.h"
#include "common/pg_binary.h"
#include "embedded/publish_sql.h"

namespace psp::primary {
namespace {

// A decision has the time that the clock told before it, so it looks older than it is by one step at most. After a pause of the
// housekeeper the clock is late, and everything is kept for longer.
constexpr std::int64_t kClockStepMaxMs = 60'000;
constexpr std::int64_t kPieceDecisions = 20000;
constexpr std::int64_t kPieceKeys = 5000;

}  // namespace

void Sweeper::AdvanceClock(pqxx::transaction_base& tx) {
  const std::int64_t now_us = MonotonicUs();
  const std::int64_t passed_ms = (now_us - std::exchange(clock_read_us_, now_us).value_or(now_us)) / 1000;
  tx.exec_params(std::string(sql::kAdvanceClock), std::min(passed_ms, kClockStepMaxMs));
}

bool Sweeper::Sweep(pqxx::transaction_base& tx) {
  const bool more_decisions = PurgeDecisions(tx);
  const bool more_requests = ExpireRequests(tx);
  const bool more_keys = CollectDeleted(tx);
  const auto dropped = tx.exec_params1(std::string(sql::kCollectDropped), kPieceKeys)[0].as<std::int64_t>();
  const bool more_of_emptied = tx.exec_params1(std::string(sql::kCollectEmptied), kPieceKeys)[0].as<bool>();
  return more_decisions || more_requests || more_keys || dropped == kPieceKeys || more_of_emptied;
}

bool Sweeper::PurgeDecisions(pqxx::transaction_base& tx) {
  const auto truncated_t = tx.exec1("SELECT truncated_t FROM psp.log_start")[0].as<GlobalT>();
  if (truncated_t != truncated_t_) {
    truncated_t_ = truncated_t;
    purged_upto_ms_ = INT64_MIN;
  }
  const pqxx::row piece =
      tx.exec_params1(std::string(sql::kPurgeTxLog), retention_.tx_log_s * 1000 + kClockStepMaxMs,
                      purged_upto_ms_, kPieceDecisions);
  const auto upto_ms = piece[2].as<std::int64_t>(purged_upto_ms_);
  const bool moved = piece[1].as<std::int64_t>() > 0 || upto_ms != purged_upto_ms_;
  purged_upto_ms_ = upto_ms;
  return moved && piece[0].as<std::int64_t>() == kPieceDecisions;
}

bool Sweeper::CollectDeleted(pqxx::transaction_base& tx) {
  if (!collecting_) {
    const auto collectable_t =
        tx.exec_params1(std::string(sql::kCollectable), retention_.deleted_s * 1000)[0].as<GlobalT>();
    if (collectable_t <= collected_t_) return false;
    collected_t_ = collectable_t;
    collecting_ = true;
    position_ = {};
  }
  const pqxx::row piece = tx.exec_params1(std::string(sql::kCollectDeleted), collected_t_, position_.table_id,
                                          Binary(position_.key), kPieceKeys);
  collecting_ = piece[0].as<std::int64_t>() == kPieceKeys;
  if (collecting_) {
    position_ = {piece[1].as<std::uint32_t>(), DecodeByteaText(piece[2].c_str()).value_or("")};
  }
  return collecting_;
}

bool Sweeper::ExpireRequests(pqxx::transaction_base& tx) {
  const auto newest = tx.exec1(std::string(sql::kNewestGeneration))[0].as<std::int32_t>();
  if (newest == looked_at_generation_) return false;
  const pqxx::row piece =
      tx.exec_params1(std::string(sql::kExpireRequests), newest, Binary(request_position_), kPieceKeys);
  const bool more = piece[0].as<std::int64_t>() == kPieceKeys;
  request_position_ = more ? DecodeByteaText(piece[1].c_str()).value_or("") : "";
  if (!more) looked_at_generation_ = newest;
  return more;
}

}  // namespace psp::primary
