#include "tests/simulation/primary_database.h"

#include <algorithm>

#include "primary/publish/encode.h"
#include "tests/simulation/rows.h"

namespace psp::simulation {

PrimaryDatabase::PrimaryDatabase(const Scenario& scenario)
    : check_conflicts_(scenario.mutation != Mutation::kNoConflictCheck) {
  for (std::int64_t id = 0; id < scenario.counters; ++id) data_[CounterKey(id)] = {0, 0, false, Image(id, 0)};
  for (SpId sp_id = 1; sp_id <= scenario.sps; ++sp_id) acked_[sp_id] = 0;
}

GlobalT PrimaryDatabase::closed_t() const {
  return log_.empty() ? truncated_t_ : std::max(truncated_t_, log_.rbegin()->first);
}

std::vector<RegisteredSp> PrimaryDatabase::Registry() const {
  std::vector<RegisteredSp> registry;
  for (const auto& [sp_id, acked_t] : acked_) {
    registry.push_back({sp_id, "sp" + std::to_string(sp_id), false, acked_t});
  }
  return registry;
}

std::optional<LostKey> PrimaryDatabase::LostOn(const RowKey& key, const CertifyRequest& request) const {
  const auto found = data_.find(key);
  if (found == data_.end() || !check_conflicts_) return std::nullopt;
  const GlobalT last_t = found->second.global_t;
  if (last_t <= request.watermark || std::ranges::find(request.seen, last_t) != request.seen.end()) {
    return std::nullopt;
  }
  return LostKey{key.table_id, key.key, last_t, found->second.sp_id};
}

std::optional<LostKey> PrimaryDatabase::Lost(const BatchItem& item) const {
  if (item.lost_on) return LostOn(*item.lost_on, *item.request);
  if (item.global_t == 0) return std::nullopt;
  for (const proto::Row& row : item.request->rows.rows()) {
    if (auto lost = LostOn({row.table_id(), row.key()}, *item.request)) return lost;
  }
  return std::nullopt;
}

void PrimaryDatabase::Write(const BatchItem& item) {
  const CertifyRequest& request = *item.request;
  for (const proto::Row& row : request.rows.rows()) {
    data_[{row.table_id(), row.key()}] = {item.global_t, request.sp_id, row.deleted(), row.image()};
  }
  log_[item.global_t] = {request.tx_id, request.sp_id, request.write_set};
  committed_[item.global_t] = request.tx_id;
}

std::vector<Verdict> PrimaryDatabase::Decide(const Batch& batch) {
  std::vector<Verdict> verdicts;
  for (const BatchItem& item : batch.items) {
    const auto known = tx_log_.find(item.request->tx_id);
    Verdict verdict{item.global_t, std::nullopt, item.abort_reason};
    if (known != tx_log_.end()) {
      verdict = known->second;
    } else {
      if (auto lost = Lost(item)) verdict = {0, std::move(lost), ""};
      if (verdict.global_t > 0) Write(item);
      tx_log_[item.request->tx_id] = verdict;
    }
    verdicts.push_back(std::move(verdict));
  }
  return verdicts;
}

const Verdict* PrimaryDatabase::DecisionOf(const TxId& tx_id) const {
  const auto found = tx_log_.find(tx_id);
  return found == tx_log_.end() ? nullptr : &found->second;
}

LogChunk PrimaryDatabase::Read(const ReadLog& work) const {
  LogChunk chunk{work.sp_id, work.stream_id, truncated_t_ > work.from_t, work.upto_t, {}};
  std::size_t bytes_before = 0;
  for (auto entry = log_.upper_bound(work.from_t); entry != log_.end() && entry->first <= work.upto_t;
       ++entry) {
    if (bytes_before >= work.bytes_max) break;
    const LogEntry& one = entry->second;
    bytes_before += one.write_set.size();
    chunk.transactions.push_back(Encode(entry->first, one.tx_id, one.sp_id, 0, one.write_set));
  }
  if (!chunk.transactions.empty()) chunk.read_t = chunk.transactions.back()->global_t;
  return chunk;
}

void PrimaryDatabase::Acknowledge(const std::map<SpId, GlobalT>& acked) {
  for (const auto& [sp_id, acked_t] : acked) acked_[sp_id] = std::max(acked_[sp_id], acked_t);
}

void PrimaryDatabase::Truncate(std::optional<GlobalT> joiners_need_after) {
  GlobalT upto = joiners_need_after.value_or(closed_t());
  for (const auto& [sp_id, acked_t] : acked_) upto = std::min(upto, acked_t);
  while (!log_.empty() && log_.begin()->first <= upto) {
    truncated_t_ = log_.begin()->first;
    log_.erase(log_.begin());
  }
}

}  // namespace psp::simulation
