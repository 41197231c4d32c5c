#include "tests/simulation/primary_database.h"

#include <algorithm>

#include "common/pg_binary.h"
#include "primary/publish/encode.h"
#include "tests/simulation/rows.h"
#include "tests/simulation/schema.h"

namespace psp::simulation {

constexpr std::int64_t kStillValues = 1000;

KnownTable PrimaryDatabase::AsAdopted(std::uint32_t number) const {
  if (mutation_ == Mutation::kCatalogIsNotAsked) return {};
  if (number == kNamesGuard) return {1, false, kNames};
  return {1, false, number, FormOfTables()};
}

PrimaryDatabase::PrimaryDatabase(const Scenario& scenario, const History& history)
    : mutation_(scenario.mutation), history_(&history) {
  for (std::int64_t id = 0; id < scenario.counters; ++id) data_[CounterKey(id)] = {0, 0, false, Image(id, 0)};
  for (std::int64_t i = 0; i < scenario.still_rows; ++i) {
    const std::int64_t id = scenario.names + i;
    data_[NameKey(id)] = {0, 0, false, Image(id, kStillValues + i)};
  }
  for (std::int64_t id = 0; id < kParentRows; ++id) data_[ParentKey(id)] = {0, 0, false, Image(id, 0)};
  for (std::int64_t id = 0; id < kDoctorRows; ++id) data_[DoctorKey(id)] = {0, 0, false, Image(id, 1)};
  for (SpId sp_id = 1; sp_id <= scenario.sps; ++sp_id) acked_[sp_id] = 0;
  tables_.version = 1;
  for (std::uint32_t number = 0; number <= kLastNumber; ++number) tables_.numbers[number] = AsAdopted(number);
}

GlobalT PrimaryDatabase::closed_t() const {
  return log_.empty() ? truncated_t_ : std::max(truncated_t_, log_.rbegin()->first);
}

// As in primary/startup.cc and sql/primary/daemon/forget_epochs.sql.
Epoch PrimaryDatabase::BeginEpoch(const std::string& history) {
  const bool sees_gaps = mutation_ != Mutation::kGapsAreNotSeen;
  const GlobalT start_t = (sees_gaps ? std::min(closed_t(), unbroken_t()) : closed_t()) + 1;
  if (mutation_ == Mutation::kEmptyEpochsAreForgotten) {
    std::erase_if(epochs_, [&](const EpochStart& epoch) { return epoch.start_t >= start_t; });
  }
  const EpochStarts all = epochs_;
  std::erase_if(epochs_, [&](const EpochStart& epoch) {
    return std::ranges::any_of(
        all, [&](const EpochStart& n) { return n.start_t > epoch.start_t && n.start_t <= truncated_t_; });
  });
  const bool draws = mutation_ != Mutation::kHistoryIsNotDrawn || epochs_.empty();
  epochs_.push_back({draws ? history : epochs_.back().history, start_t});
  kept_t_[epochs_.back().history] = settled_t_ = closed_t();
  decided_.clear();
  ++written_;
  return ++epoch_;
}

std::vector<GlobalT> PrimaryDatabase::newest_ts() const {
  std::vector<GlobalT> all;
  for (const EpochStart& epoch : epochs_) all.push_back(kept_t_.at(epoch.history));
  return all;
}

Commits PrimaryDatabase::kept() const {
  Commits kept;
  for (const EpochStart& epoch : epochs_) {
    const auto end = log_.upper_bound(kept_t_.at(epoch.history));
    for (auto one = log_.lower_bound(epoch.start_t); one != end; ++one) {
      kept.emplace(one->first, one->second.tx_id);
    }
  }
  return kept;
}

std::vector<primary::RegistryRow> PrimaryDatabase::Registry() const {
  std::vector<primary::RegistryRow> registry;
  for (const auto& [sp_id, acked_t] : acked_) {
    const auto join = joins_.find(sp_id);
    registry.push_back({sp_id, "sp" + std::to_string(sp_id), false, acked_t,
                        join == joins_.end() ? std::nullopt : std::optional(join->second)});
  }
  return registry;
}

std::optional<Conflict> PrimaryDatabase::LostOn(const RowKey& key,
                                                const primary::CertifyRequest& request) const {
  const auto found = data_.find(key);
  if (mutation_ == Mutation::kNoConflictCheck) return std::nullopt;
  if (found == data_.end()) {
    if (collected_t_ <= request.watermark || mutation_ == Mutation::kCollectedKeysAreNew) return std::nullopt;
    return Conflict{key, collected_t_, 0};
  }
  const GlobalT last_t = found->second.global_t;
  if (last_t <= request.watermark || std::ranges::find(request.seen, last_t) != request.seen.end()) {
    return std::nullopt;
  }
  return Conflict{key, last_t, found->second.sp_id};
}

std::optional<Conflict> PrimaryDatabase::Lost(const primary::BatchItem& item) const {
  if (item.conflict || item.global_t == 0) return item.conflict;
  for (const proto::Row& row : item.request->rows.rows()) {
    if (auto lost = LostOn({row.table_id(), row.key()}, *item.request)) return lost;
  }
  for (const proto::KeyUse& use : item.request->uses.keys()) {
    if (use.kind() != proto::USE_READ || mutation_ == Mutation::kReadsAreNotLookedUp) continue;
    auto lost = LostOn({use.table_id(), use.key()}, *item.request);
    if (lost) lost->use = proto::USE_READ;
    if (lost) return lost;
  }
  return std::nullopt;
}

void PrimaryDatabase::Write(const primary::BatchItem& item) {
  const primary::CertifyRequest& request = *item.request;
  for (const proto::Row& row : request.rows.rows()) {
    data_[{row.table_id(), row.key()}] = {item.global_t, request.sp_id, !row.has_image(), row.image()};
  }
  if (request.rows.kind() == proto::ENTRY_SCHEMA_CHANGE) ChangeCatalog(request.rows, item.global_t);
  log_[item.global_t] = {request.tx_id, request.sp_id, request.write_set};
  committed_[item.global_t] = request.tx_id;
}

// As in sql/primary/daemon/change_catalog.sql.
void PrimaryDatabase::ChangeCatalog(const proto::WriteSet& change, GlobalT global_t) {
  tables_.version = change.catalog_version();
  versions_.push_back(global_t);
  for (const proto::TableChange& table : change.table_changes()) {
    tables_.numbers[table.table_id()] = {tables_.version, table.dropped(), table.table_id(),
                                         DecodeTableForm(table.form())};
    if (table.emptied()) emptied_[table.table_id()] = global_t;
    for (const std::uint32_t guard_id : table.guard_ids())
      tables_.numbers[guard_id] = {tables_.version, false, table.table_id()};
  }
}

bool PrimaryDatabase::IsGone(const RowKey& key, const Row& row) const {
  if (tables_.numbers.at(key.table_id).dropped) return true;
  const auto emptied = emptied_.find(key.table_id);
  return emptied != emptied_.end() && row.global_t < emptied->second;
}

std::uint32_t PrimaryDatabase::CatalogVersionAt(GlobalT global_t) const {
  return 1 + static_cast<std::uint32_t>(std::ranges::upper_bound(versions_, global_t) - versions_.begin());
}

std::vector<primary::Verdict> PrimaryDatabase::Decide(const primary::Batch& batch) {
  std::vector<primary::Verdict> verdicts;
  if (batch.numbers.last_t > 0) {
    decided_.push_back(batch.numbers);
    ++written_;
  }
  for (const primary::BatchItem& item : batch.items) {
    const auto known = tx_log_.find(item.request->tx_id);
    primary::Verdict verdict{item.global_t, std::nullopt, item.abort_reason};
    if (known != tx_log_.end()) {
      verdict = known->second;
    } else {
      if (auto lost = Lost(item)) verdict = {0, std::move(lost), ""};
      verdict.forgotten = verdict.global_t == 0 && MayBeForgotten(item);
      if (verdict.global_t > 0) Write(item);
      if (!verdict.forgotten) {
        tx_log_[item.request->tx_id] = verdict;
        ++written_;
        ever_decided_.emplace(item.request->tx_id, verdict);
      }
    }
    verdicts.push_back(std::move(verdict));
  }
  return verdicts;
}

bool PrimaryDatabase::MayBeForgotten(const primary::BatchItem& item) const {
  if (mutation_ == Mutation::kForgottenAreAborted) return false;
  const auto forgotten = forgotten_xid_.find(item.request->sp_id);
  return forgotten != forgotten_xid_.end() && history_->at(item.request->tx_id).xid <= forgotten->second;
}

// As in sql/primary/daemon/purge_tx_log.sql, but nothing is too young. What was made aborted must be remembered while it may be sent.
void PrimaryDatabase::Purge() {
  std::erase_if(tx_log_, [&](const auto& one) {
    const auto& [tx_id, verdict] = one;
    if (verdict.global_t <= 0 || verdict.global_t > truncated_t_) return false;
    const TxRecord& record = history_->at(tx_id);
    forgotten_xid_[record.sp_id] = std::max(forgotten_xid_[record.sp_id], record.xid);
    return true;
  });
}

const primary::Verdict* PrimaryDatabase::DecisionOf(const TxId& tx_id) const {
  const auto found = ever_decided_.find(tx_id);
  return found == ever_decided_.end() ? nullptr : &found->second;
}

primary::LogChunk PrimaryDatabase::Read(const primary::ReadLog& work) const {
  primary::LogChunk chunk{work.sp_id, work.stream_id, truncated_t_ > work.from_t, work.upto_t, {}};
  std::size_t bytes_before = 0;
  for (auto entry = log_.upper_bound(work.from_t); entry != log_.end() && entry->first <= work.upto_t;
       ++entry) {
    if (bytes_before >= work.bytes_max) break;
    const LogEntry& one = entry->second;
    bytes_before += one.write_set.size();
    chunk.transactions.push_back(primary::Encode(entry->first, one.tx_id, one.sp_id, 0, one.write_set));
  }
  if (!chunk.transactions.empty()) chunk.read_t = chunk.transactions.back()->global_t;
  return chunk;
}

// As in sql/primary/daemon/table_chunk.sql.
primary::EncodedCopyChunk PrimaryDatabase::Read(Epoch epoch, const primary::ReadCopy& work) const {
  proto::CopyChunk rows;
  std::size_t bytes_before = 0;
  for (auto entry = data_.upper_bound(work.after); entry != data_.end(); ++entry) {
    const auto& [key, row] = *entry;
    const bool is_gone = mutation_ == Mutation::kEmptiedRowsAreCopied
                             ? tables_.numbers.at(key.table_id).dropped
                             : IsGone(key, row);
    if (row.deleted || is_gone) continue;
    if (row.global_t > work.snapshot_t) continue;
    if (bytes_before >= work.bytes_max) break;
    if (rows.rows_size() > 0 && rows.rows(0).table_id() == kHistoryTable) break;
    bytes_before += row.image.size();
    proto::Row* one = rows.add_rows();
    one->set_table_id(key.table_id);
    one->set_key(key.key);
    one->set_image(row.image);
    one->set_catalog_version(CatalogVersionAt(row.global_t));
  }
  rows.set_catalog_version(CatalogVersionAt(work.snapshot_t));
  return primary::EncodeCopyChunk(epoch, work, std::move(rows), static_cast<std::int64_t>(data_.size()),
                                  closed_t());
}

void PrimaryDatabase::Release(SpId sp_id) {
  acked_.erase(sp_id);
  joins_.erase(sp_id);
  ++written_;
}

primary::HouseReport PrimaryDatabase::Keep(const primary::HouseWork& work) {
  ++written_;
  for (const auto& [sp_id, snapshot_t] : work.joins) joins_[sp_id] = snapshot_t;
  for (const auto& [sp_id, acked_t] : work.acks) {
    acked_[sp_id] = std::max(acked_[sp_id], acked_t);
    const auto join = joins_.find(sp_id);
    if (join != joins_.end() && join->second <= acked_t) joins_.erase(join);
  }
  if (work.truncate_log) {
    Truncate();
    settled_t_ = std::max(settled_t_, work.settled_t);
    std::erase_if(decided_, [&](const NumberRange& batch) { return batch.last_t <= settled_t_; });
  }
  if (work.sweep) Purge();
  const bool more_to_sweep = work.sweep && Collect();
  return {work.number, Registry(), Tables(), truncated_t_, false, more_to_sweep};
}

// As in primary/publish/sweeper.cc, a few keys at a time.
bool PrimaryDatabase::Collect() {
  constexpr std::size_t kPieceKeys = 3;
  std::size_t collected = 0;
  for (auto one = data_.begin(); one != data_.end() && collected < kPieceKeys;) {
    const bool is_old = one->second.deleted && one->second.global_t <= truncated_t_;
    const bool goes = is_old || IsGone(one->first, one->second);
    one = goes ? data_.erase(one) : std::next(one);
    collected += goes ? 1 : 0;
    if (is_old) collected_t_ = truncated_t_;
  }
  return collected == kPieceKeys;
}

void PrimaryDatabase::Truncate() {
  GlobalT upto = closed_t();
  for (const auto& [sp_id, acked_t] : acked_) {
    if (acked_t >= 0 && !joins_.contains(sp_id)) upto = std::min(upto, acked_t);
  }
  for (const auto& [sp_id, snapshot_t] : joins_) {
    if (mutation_ != Mutation::kLogIsNotKeptForJoiners) upto = std::min(upto, snapshot_t);
  }
  while (!log_.empty() && log_.begin()->first <= upto) {
    truncated_t_ = log_.begin()->first;
    log_.erase(log_.begin());
  }
}

}  // namespace psp::simulation
