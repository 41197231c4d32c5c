#include "semi_primary/submit/local_certification.h"

#include <algorithm>
#include <utility>

namespace psp::sp {
namespace {

RowKeyView KeyOf(const proto::Row& row) { return {row.table_id(), row.key()}; }
RowKeyView KeyOf(const proto::KeyUse& use) { return {use.table_id(), use.key()}; }
RowKeyView KeyOfTable(std::uint32_t table_id) { return {table_id, std::string_view()}; }

// Calls visit(key, has_ended) for each row, and for each table that has rows or is changed.
template <class Visit>
void ForEachWritten(const proto::WriteSet& write_set, Visit visit) {
  const bool may_end = write_set.kind() == proto::ENTRY_ROWS;
  std::optional<std::uint32_t> last_table;
  for (const proto::Row& row : write_set.rows()) {
    visit(KeyOf(row), row.deleted() && may_end);
    if (row.table_id() != last_table) visit(KeyOfTable(row.table_id()), false);
    last_table = row.table_id();
  }
  for (const proto::TableChange& change : write_set.table_changes()) {
    visit(KeyOfTable(change.table_id()), false);
  }
}

}  // namespace

template <class Visit>
void LocalCertification::ForEachUse(const Waiting& transaction, Visit visit) {
  for (const proto::Row& row : transaction.write_set->rows()) visit(KeyOf(row), Use{&row});
  if (!transaction.uses) return;
  for (const proto::KeyUse& use : transaction.uses->keys()) {
    const bool is_compared = use.kind() == proto::USE_READ || use.kind() == proto::USE_TABLE_READ ||
                             use.kind() == proto::USE_SHARED;
    if (is_compared) visit(KeyOf(use), Use{nullptr, use.kind()});
  }
}

bool LocalCertification::HasSeen(const Use& use, const Snapshot& snapshot, GlobalT writer_t) {
  const bool knows_version = use.row != nullptr && use.row->has_global_t();
  return knows_version ? writer_t <= use.row->global_t() : snapshot.Has(writer_t);
}

Conflict LocalCertification::ConflictOf(const RowKeyView& key, const Use& use, const Writer& winner) {
  return {{key.table_id, std::string(key.key)}, winner.global_t, winner.sp_id, use.kind};
}

std::optional<Conflict> LocalCertification::Add(const TxId& tx_id, const Snapshot& snapshot,
                                                const WriteSetPtr& write_set, const KeyUsesPtr& uses) {
  while (noted_ < arrived_.size()) NoteNext([](const RowKeyView&, const Writer&, bool) {});
  const Waiting transaction{snapshot, write_set, uses};
  std::optional<Conflict> conflict;
  ForEachUse(transaction, [&](const RowKeyView& key, const Use& use) {
    if (conflict) return;
    const Writers& writers = use.kind == proto::USE_SHARED ? enders_ : writers_;
    const auto writer = writers.find(key);
    if (writer == writers.end() || HasSeen(use, snapshot, writer->second.global_t)) return;
    conflict = ConflictOf(key, use, writer->second);
  });
  if (conflict) return conflict;
  ForEachUse(transaction, [&](const RowKeyView& key, const Use& use) {
    waiting_uses_.emplace(key, WaitingUse{tx_id, use});
  });
  waiting_.emplace(tx_id, transaction);
  return std::nullopt;
}

void LocalCertification::Remove(const TxId& tx_id) {
  const auto found = waiting_.find(tx_id);
  if (found == waiting_.end()) return;
  ForEachUse(found->second, [&](const RowKeyView& key, const Use& /*use*/) {
    auto [entry, end] = waiting_uses_.equal_range(key);
    entry = std::find_if(entry, end, [&](const auto& pair) { return pair.second.tx_id == tx_id; });
    if (entry != end) waiting_uses_.erase(entry);
  });
  waiting_.erase(found);
}

std::vector<LocalCertification::Doomed> LocalCertification::Arrived(GlobalT global_t, SpId sp_id,
                                                                    const WriteSetPtr& write_set) {
  std::vector<Doomed> doomed;
  arrived_.push_back({{global_t, sp_id}, write_set});
  if (waiting_.empty()) return doomed;
  NoteNext([&](const RowKeyView& key, const Writer& writer, bool has_ended) {
    Doom(key, writer, has_ended, &doomed);
  });
  return doomed;
}

template <class Visit>
void LocalCertification::NoteNext(Visit visit) {
  const auto& [writer, write_set] = arrived_[noted_++];
  const auto note = [&](Writers* writers, const RowKeyView& key) {
    writers->erase(key);  // its view points into an older write-set
    writers->emplace(key, writer);
  };
  ForEachWritten(*write_set, [&](const RowKeyView& key, bool has_ended) {
    note(&writers_, key);
    if (has_ended) note(&enders_, key);
    visit(key, writer, has_ended);
  });
}

void LocalCertification::Doom(const RowKeyView& key, const Writer& winner, bool has_ended,
                              std::vector<Doomed>* doomed) {
  std::vector<Doomed> losers;
  const auto [begin, end] = waiting_uses_.equal_range(key);
  for (auto entry = begin; entry != end; ++entry) {
    const auto& [tx_id, use] = entry->second;
    if (use.kind == proto::USE_SHARED && !has_ended) continue;
    if (HasSeen(use, waiting_.at(tx_id).snapshot, winner.global_t)) continue;
    losers.push_back({tx_id, ConflictOf(key, use, winner)});
  }
  for (Doomed& loser : losers) {
    if (!waiting_.contains(loser.tx_id)) continue;  // it has used the key in two ways
    Remove(loser.tx_id);
    doomed->push_back(std::move(loser));
  }
}

void LocalCertification::Applied(GlobalT watermark) {
  while (!arrived_.empty() && arrived_.front().writer.global_t <= watermark) {
    if (noted_ > 0) {
      ForgetOldest();
      --noted_;
    }
    arrived_.pop_front();
  }
}

void LocalCertification::ForgetOldest() {
  const auto& [oldest, write_set] = arrived_.front();
  const GlobalT global_t = oldest.global_t;
  const auto forget = [global_t](Writers* writers, const RowKeyView& key) {
    const auto writer = writers->find(key);
    if (writer != writers->end() && writer->second.global_t == global_t) writers->erase(writer);
  };
  ForEachWritten(*write_set, [&](const RowKeyView& key, bool has_ended) {
    forget(&writers_, key);
    if (has_ended) forget(&enders_, key);
  });
}

void LocalCertification::ForgetArrived() {
  writers_.clear();
  enders_.clear();
  arrived_.clear();
  noted_ = 0;
}

}  // namespace psp::sp
