#include "tests/simulation/sp_database.h"

#include <algorithm>
#include <utility>

namespace psp::simulation {

constexpr std::int64_t kFlushUs = 400'000;

sp::Snapshot SpState::Snapshot() const {
  sp::Snapshot snapshot{watermark, {}};
  for (const auto& [global_t, tx_id] : applied) {
    if (global_t > watermark) snapshot.seen.push_back(global_t);
  }
  return snapshot;
}

Schema SpState::SchemaNow() const {
  Schema schema;
  const auto end = rows.lower_bound(RowKey{kHistoryTable + 1, ""});
  for (auto change = rows.begin(); change != end; ++change) schema.Add(ChangeIn(change->second.image));
  return schema;
}

void SpState::Put(const RowKey& key, const std::string& image) {
  rows[key] = {image, ++versions};
  if (key.table_id != kHistoryTable || !TakesRowsAway(ChangeIn(image))) return;
  std::erase_if(rows, [&](const auto& row) { return row.first.table_id == ChangeIn(image).table_id; });
}

std::uint64_t SpState::VersionOf(const RowKey& key) const {
  const auto found = rows.find(key);
  return found == rows.end() ? 0 : found->second.version;
}

SpDatabase::SpDatabase(Simulator* sim, SpState initial)
    : sim_(*sim), state_(std::make_shared<SpState>(std::move(initial))), durable_(state_) {}

void SpDatabase::Commit(SpState next) {
  state_ = std::make_shared<SpState>(std::move(next));
  not_durable_.push_back(state_);
  sim_.After(sim_.Between(1'000, kFlushUs), incarnation_, [this, written = state_] {
    while (!not_durable_.empty()) {
      // The log is written in order; this state may be on disk already.
      if (std::find(not_durable_.begin(), not_durable_.end(), written) == not_durable_.end()) return;
      durable_ = not_durable_.front();
      not_durable_.pop_front();
    }
  });
}

void SpDatabase::NoteTold(GlobalT global_t, const std::string& tx_id) {
  if (global_t > 0) told_[global_t] = {TxId::FromBytes(tx_id).value(), sim_.now_us()};
}

void SpDatabase::Flush() {
  durable_ = state_;
  not_durable_.clear();
}

void SpDatabase::Crash() {
  holding_.clear();
  const auto survive =
      static_cast<std::size_t>(sim_.Between(0, static_cast<std::int64_t>(not_durable_.size())));
  if (survive > 0) durable_ = not_durable_[survive - 1];
  not_durable_.clear();
  applied_before_crash_ = state_->applied;
  lacks_own_.reset();
  has_apply_session_ = false;
  state_ = durable_;
  up_ = false;
  incarnation_ = std::make_shared<int>(0);
  locks_.clear();
  table_locks_.clear();
}

bool SpDatabase::TryLock(LockOwner owner, const RowKey& key) {
  return locks_.try_emplace(key, owner).first->second == owner;
}

SpDatabase::LockOwner SpDatabase::HolderOf(const RowKey& key) const {
  const auto found = locks_.find(key);
  return found == locks_.end() ? 0 : found->second;
}

std::set<SpDatabase::LockOwner> SpDatabase::TryLockTable(LockOwner owner, std::uint32_t table_id,
                                                         TableLock lock) {
  auto& holders = table_locks_[table_id];
  std::set<LockOwner> in_the_way;
  for (const auto& [holder, held] : holders) {
    const bool is_shared = held == TableLock::kWrite && lock == TableLock::kWrite;
    if (holder != owner && !is_shared) in_the_way.insert(holder);
  }
  if (in_the_way.empty()) holders[owner] = std::max(holders[owner], lock);
  return in_the_way;
}

void SpDatabase::Unlock(LockOwner owner) {
  std::erase_if(locks_, [owner](const auto& lock) { return lock.second == owner; });
  for (auto& [table_id, holders] : table_locks_) holders.erase(owner);
}

RowKey AdvisoryLock(const TxId& tx_id) { return {0, tx_id.ToBytes()}; }

std::uint32_t ParentLock(const RowKey& parent) {
  constexpr std::uint32_t kFirst = 1'000'000;
  return kFirst + static_cast<std::uint32_t>(IdOf(parent));
}

}  // namespace psp::simulation
