#include "primary/publish/sweeper.h"

#include "common/pg_binary.h"
#include "embedded/publish_sql.h"

namespace psp::primary {
namespace {

// More than the transactions of one batch, which were all decided at the same time.
constexpr std::int64_t kPieceDecisions = 20000;
constexpr std::int64_t kPieceKeys = 5000;

}  // namespace

bool Sweeper::Sweep(pqxx::transaction_base& tx) {
  const bool more_decisions = PurgeDecisions(tx);
  const bool more_keys = CollectDeleted(tx);
  const auto dropped = tx.exec_params1(std::string(sql::kCollectDropped), kPieceKeys)[0].as<std::int64_t>();
  const bool more_of_emptied = tx.exec_params1(std::string(sql::kCollectEmptied), kPieceKeys)[0].as<bool>();
  return more_decisions || more_keys || dropped == kPieceKeys || more_of_emptied;
}

bool Sweeper::PurgeDecisions(pqxx::transaction_base& tx) {
  const auto truncated_t = tx.exec1("SELECT truncated_t FROM psp.log_start")[0].as<GlobalT>();
  if (truncated_t != truncated_t_) {
    truncated_t_ = truncated_t;
    purged_upto_ = "-infinity";
  }
  const pqxx::row piece =
      tx.exec_params1(std::string(sql::kPurgeTxLog), retention_.tx_log_s, purged_upto_, kPieceDecisions);
  const auto upto = piece[2].as<std::string>(purged_upto_);
  const bool moved = piece[1].as<std::int64_t>() > 0 || upto != purged_upto_;
  purged_upto_ = upto;
  return moved && piece[0].as<std::int64_t>() == kPieceDecisions;
}

bool Sweeper::CollectDeleted(pqxx::transaction_base& tx) {
  if (!collecting_) {
    const auto collectable_t =
        tx.exec_params1(std::string(sql::kCollectable), retention_.deleted_s)[0].as<GlobalT>();
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

}  // namespace psp::primary
