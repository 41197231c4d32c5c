#include "tests/simulation/applier.h"

#include <algorithm>
#include <set>

namespace psp::simulation {
namespace {

constexpr std::int64_t kConflictGraceUs = 150'000;
constexpr std::int64_t kAckIntervalUs = 250'000;

TableCatalogPtr SharedCatalog() {
  static const auto shared = std::make_shared<const TableCatalog>(Catalog());
  return shared;
}

}  // namespace

Applier::Applier(Simulator* sim, const Scenario& scenario, SpDatabase* database, Hooks hooks)
    : sim_(*sim), scenario_(scenario), database_(*database), hooks_(std::move(hooks)) {
  sim_.After(kAckIntervalUs, alive_, [this] { MakeDurable(); });
}

void Applier::Later(std::int64_t low_us, std::int64_t high_us, void (Applier::*step)()) {
  sim_.After(sim_.Between(low_us, high_us), work_, [this, step] { (this->*step)(); });
}

void Applier::Report(ApplyEvent event) {
  report_free_us_ = std::max(report_free_us_, sim_.now_us() + sim_.Between(0, 2'000));
  sim_.At(report_free_us_, alive_, [this, event = std::move(event)] { hooks_.report(event); });
}

void Applier::ReportProgress() {
  const SpState& state = *database_.state();
  Report(ApplyProgress{generation_, state.watermark, std::max<GlobalT>(durable_, 0), copied_rows_,
                       state.joining});
}

void Applier::Push(ApplyStep step) {
  queue_.push_back(std::move(step));
  Next();
}

void Applier::Begin() {
  if (!database_.up()) return;
  connected_ = true;
  copied_rows_ = 0;
  complete_t_ = INT64_MAX;
  durable_ = -1;
  const SpState& state = *database_.state();
  Commits own = state.applied;
  if (scenario_.mutation == Mutation::kLostOwnAreThere) {
    own.insert(database_.applied_before_crash().begin(), database_.applied_before_crash().end());
  }
  Report(ApplyStarted{++generation_, state.watermark, state.joining, SharedCatalog(), std::move(own)});
}

void Applier::OnPostgresCrash() {
  work_ = std::make_shared<int>(0);
  connected_ = false;
  busy_ = false;
}

void Applier::SetStalled(bool stalled) {
  stalled_ = stalled;
  Next();
}

void Applier::Next() {
  if (busy_ || stalled_ || !connected_) return;
  std::erase_if(queue_, [this](const ApplyStep& step) { return step.generation != generation_; });
  if (queue_.empty()) return;
  busy_ = true;
  if (queue_.front().copied_rows) {
    copy_ = std::move(queue_.front());
    queue_.pop_front();
    return Later(200, 5'000, &Applier::Copy);
  }
  batch_.clear();
  for (std::int64_t steps = sim_.Between(1, 6); steps > 0 && !queue_.empty(); --steps) {
    const std::vector<ApplyTransaction>& some = queue_.front().transactions;
    batch_.insert(batch_.end(), some.begin(), some.end());
    upto_t_ = queue_.front().closed_t;
    queue_.pop_front();
  }
  next_own_ = 0;
  blocked_since_us_ = 0;
  written_.clear();
  Later(50, 2'000, &Applier::FindOwn);
}

bool Applier::IsIn(const ApplyTransaction& own) { return database_.state()->applied.contains(own.global_t); }

// Goes through the batch; stays at an own transaction whose backend has not ended.
void Applier::FindOwn() {
  for (; next_own_ < batch_.size(); ++next_own_) {
    const ApplyTransaction& one = batch_[next_own_];
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
    if (one.write_set != nullptr) written_.push_back({one.global_t, one.write_set.get()});
  }
  Build();
}

void Applier::Build() {
  const auto built = BuildBatch(Catalog(), written_, false);
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
  next.watermark = upto_t_;
  if (next.watermark >= complete_t_) next.joining = false;
  std::erase_if(next.applied, [&](const auto& one) { return one.first <= next.watermark; });
  for (const ApplyTransaction& one : batch_) database_.NoteBrought(one.global_t, one.tx_id);
  sim_.Trace("apply: W is ", next.watermark);
  Done(std::move(next));
}

// A part of the copy.
void Applier::Copy() {
  const auto built = BuildBatch(Catalog(), {{copy_.closed_t, copy_.copied_rows.get()}}, false);
  if (!built.ok()) return sim_.Violation("the copy cannot be written: ", built.error().message);
  SpState next = *database_.state();
  if (copy_.copy_begins && scenario_.mutation != Mutation::kCopyIsNotCleared) next.rows.clear();
  for (const auto& [key, image] : Unpack(*built).upserts) next.Put(key, image);
  if (copy_.copy_is_complete) {
    next.watermark = copy_.closed_t;
    complete_t_ = scenario_.mutation == Mutation::kJoinedBeforeTheLog ? 0 : copy_.complete_t;
    next.joining = next.watermark < complete_t_;
  }
  copied_rows_ = copy_.rows_done;
  sim_.Trace("apply: ", copied_rows_, " rows are copied", copy_.copy_is_complete ? ", all" : "");
  Done(std::move(next));
}

void Applier::Done(SpState next) {
  std::set<std::int64_t> values;
  for (const auto& [key, row] : next.rows) {
    if (key.table_id == kNames && !values.insert(ValueOf(row.image)).second) {
      sim_.Violation("apply up to ", next.watermark, " violates the unique index");
    }
  }
  database_.Commit(std::move(next));
  database_.Unlock(kLockOwner);
  busy_ = false;
  ReportProgress();
  Next();
}

void Applier::MakeDurable() {
  sim_.After(kAckIntervalUs, alive_, [this] { MakeDurable(); });
  const SpState& state = *database_.state();
  if (!connected_ || state.joining || durable_ >= state.watermark) return;
  if (scenario_.mutation != Mutation::kAckBeforeDurable) database_.Flush();
  durable_ = state.watermark;
  ReportProgress();
}

}  // namespace psp::simulation
