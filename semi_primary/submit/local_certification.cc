#include "semi_primary/submit/local_certification.h"

#include <algorithm>
#include <utility>

namespace psp::sp {
namespace {

RowKeyView KeyOf(const proto::Row& row) { return {row.table_id(), row.key()}; }
bool HasSeen(const proto::Row& row, const Snapshot& snapshot, GlobalT writer_t) {
  return row.has_global_t() ? writer_t <= row.global_t() : snapshot.Has(writer_t);
}
RowKey Owned(const RowKeyView& view) { return {view.table_id, std::string(view.key)}; }

}  // namespace

std::optional<Conflict> LocalCertification::Add(const TxId& tx_id, const Snapshot& snapshot,
                                                const WriteSetPtr& write_set) {
  for (const proto::Row& row : write_set->rows()) {
    const auto writer = writers_.find(KeyOf(row));
    if (writer != writers_.end() && !HasSeen(row, snapshot, writer->second.global_t)) {
      return Conflict{Owned(KeyOf(row)), writer->second.global_t, writer->second.sp_id};
    }
  }
  waiting_.emplace(tx_id, Waiting{snapshot, write_set});
  for (const proto::Row& row : write_set->rows()) waiting_keys_.emplace(KeyOf(row), WaitingRow{tx_id, &row});
  return std::nullopt;
}

void LocalCertification::Remove(const TxId& tx_id) {
  const auto found = waiting_.find(tx_id);
  if (found == waiting_.end()) return;
  for (const proto::Row& row : found->second.write_set->rows()) {
    auto [entry, end] = waiting_keys_.equal_range(KeyOf(row));
    entry = std::find_if(entry, end, [&](const auto& pair) { return pair.second.tx_id == tx_id; });
    if (entry != end) waiting_keys_.erase(entry);
  }
  waiting_.erase(found);
}

std::vector<LocalCertification::Doomed> LocalCertification::Arrived(GlobalT global_t, SpId sp_id,
                                                                    const WriteSetPtr& write_set) {
  std::vector<Doomed> doomed;
  arrived_.push_back({global_t, write_set});
  for (const proto::Row& row : write_set->rows()) {
    const RowKeyView key = KeyOf(row);
    writers_.erase(key);  // its view points into an older write-set
    writers_.emplace(key, Writer{global_t, sp_id});
    const std::size_t doomed_before = doomed.size();
    const auto [begin, end] = waiting_keys_.equal_range(key);
    for (auto entry = begin; entry != end; ++entry) {
      const auto& [tx_id, waiting_row] = entry->second;
      if (HasSeen(*waiting_row, waiting_.at(tx_id).snapshot, global_t)) continue;
      doomed.push_back({tx_id, {Owned(key), global_t, sp_id}});
    }
    for (std::size_t i = doomed_before; i < doomed.size(); ++i) Remove(doomed[i].tx_id);
  }
  return doomed;
}

void LocalCertification::Applied(GlobalT watermark) {
  while (!arrived_.empty() && arrived_.front().global_t <= watermark) {
    const ArrivedTransaction& oldest = arrived_.front();
    for (const proto::Row& row : oldest.write_set->rows()) {
      const auto writer = writers_.find(KeyOf(row));
      if (writer != writers_.end() && writer->second.global_t == oldest.global_t) writers_.erase(writer);
    }
    arrived_.pop_front();
  }
}

void LocalCertification::ForgetArrived() {
  writers_.clear();
  arrived_.clear();
}

}  // namespace psp::sp
