#include "tests/simulation/applier.h"

#include <set>

namespace psp::simulation {

constexpr std::int64_t kConflictGraceUs = 150'000;

void Applier::Later(std::int64_t low_us, std::int64_t high_us, void (Applier::*step)()) {
  sim_.After(sim_.Between(low_us, high_us), work_, [this, step] { (this->*step)(); });
}

void Applier::Take(Arrived arrived) {
  queue_.push_back(std::move(arrived));
  Begin();
}

void Applier::Reset() {
  work_ = std::make_shared<int>(0);
  queue_.clear();
  batch_.clear();
}

void Applier::SetStalled(bool stalled) {
  stalled_ = stalled;
  Begin();
}

void Applier::Begin() {
  if (!batch_.empty() || queue_.empty() || stalled_ || !database_.up()) return;
  std::int64_t transactions = sim_.Between(1, 6);
  for (; transactions > 0 && !queue_.empty(); --transactions) {
    batch_.push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
  next_own_ = 0;
  blocked_since_us_ = 0;
  write_sets_.clear();
  Later(50, 2'000, &Applier::FindOwn);
}

bool Applier::IsIn(const Arrived& own) { return database_.state()->applied.contains(own.global_t); }

// Goes through the batch; stays at an own transaction whose backend has not ended.
void Applier::FindOwn() {
  for (; next_own_ < batch_.size(); ++next_own_) {
    const Arrived& one = batch_[next_own_];
    if (one.own) {
      if (IsIn(one) || scenario_.mutation == Mutation::kOwnMarkersAreTaken) continue;
      if (scenario_.mutation != Mutation::kNoWaitForOwnBackend) {
        if (!database_.TryLock(kLockOwner, AdvisoryLock(one.tx_id)))
          return Later(500, 2'000, &Applier::FindOwn);
        if (IsIn(one)) continue;
      }
      sim_.Trace("apply: own ", one.global_t, " is not in");
      if (one.write_set == nullptr) return sim_.Violation("nobody knows the rows of own ", one.global_t);
    }
    if (one.write_set != nullptr) write_sets_.push_back(one.write_set.get());
  }
  Build();
}

void Applier::Build() {
  const auto built = BuildBatch(Catalog(), write_sets_, false);
  if (!built.ok()) return sim_.Violation("a batch cannot be built: ", built.error().message);
  changes_ = Unpack(*built);
  LockRows();
}

void Applier::LockRows() {
  std::vector<RowKey> keys = changes_.deletes;
  for (const auto& [key, image] : changes_.upserts) {
    keys.push_back(key);
    if (key.table_id == kNames) keys.push_back(GuardKey(ValueOf(image)));
  }
  for (const RowKey& key : keys) {
    if (database_.TryLock(kLockOwner, key)) continue;
    if (blocked_since_us_ == 0) blocked_since_us_ = sim_.now_us();
    if (sim_.now_us() - blocked_since_us_ >= kConflictGraceUs) hooks_.end_blocker(database_.HolderOf(key));
    return Later(500, 5'000, &Applier::LockRows);
  }
  Later(200, 5'000, &Applier::Write);
}

void Applier::Write() {
  SpState next = *database_.state();
  for (const RowKey& key : changes_.deletes) next.rows.erase(key);
  for (const auto& [key, image] : changes_.upserts) next.Put(key, image);
  next.watermark = batch_.back().upto_t;
  std::erase_if(next.applied, [&](const auto& one) { return one.first <= next.watermark; });
  std::set<std::int64_t> values;
  for (const auto& [key, row] : next.rows) {
    if (key.table_id == kNames && !values.insert(ValueOf(row.image)).second) {
      sim_.Violation("apply up to ", next.watermark, " violates the unique index");
    }
  }
  sim_.Trace("apply: W is ", next.watermark);
  const GlobalT watermark = next.watermark;
  database_.Commit(std::move(next));
  database_.Unlock(kLockOwner);
  batch_.clear();
  sim_.After(sim_.Between(0, 2'000), work_, [this, watermark] { hooks_.applied(watermark); });
  Begin();
}

}  // namespace psp::simulation
