#include "tests/simulation/sp_database.h"

#include <algorithm>
#include <utility>

#include "tests/simulation/rows.h"

namespace psp::simulation {

constexpr std::int64_t kFlushUs = 400'000;

sp::Snapshot SpState::Snapshot() const {
  sp::Snapshot snapshot{watermark, {}};
  for (const auto& [global_t, tx_id] : applied) {
    if (global_t > watermark) snapshot.seen.push_back(global_t);
  }
  return snapshot;
}

std::uint32_t SpState::CatalogVersion() const {
  const auto end = rows.lower_bound(RowKey{kHistoryTable + 1, ""});
  return end == rows.begin() ? 1 : static_cast<std::uint32_t>(ChangeOf(std::prev(end)->first)) + 1;
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
}

bool SpDatabase::TryLock(LockOwner owner, const RowKey& key) {
  return locks_.try_emplace(key, owner).first->second == owner;
}

SpDatabase::LockOwner SpDatabase::HolderOf(const RowKey& key) const {
  const auto found = locks_.find(key);
  return found == locks_.end() ? 0 : found->second;
}

void SpDatabase::Unlock(LockOwner owner) {
  std::erase_if(locks_, [owner](const auto& lock) { return lock.second == owner; });
}

RowKey AdvisoryLock(const TxId& tx_id) { return {0, tx_id.ToBytes()}; }

}  // namespace psp::simulation
