#include "primary/certify/scheduler.h"

#include <algorithm>
#include <cassert>
#include <unordered_set>
#include <utility>

namespace psp::primary {
namespace {

// A row's key that is written and read, too, is named twice.
bool NamesAKeyTwice(const CertifyRequest& request) {
  std::unordered_set<RowKeyView, RowKeyHash, RowKeyEqual> seen;
  seen.reserve(static_cast<std::size_t>(request.rows.rows_size()));
  for (const proto::Row& row : request.rows.rows()) {
    if (!seen.emplace(row.table_id(), row.key()).second) return true;
  }
  return std::ranges::any_of(request.uses.keys(), [&](const proto::KeyUse& use) {
    return use.kind() == proto::USE_READ && !seen.emplace(use.table_id(), use.key()).second;
  });
}

std::optional<proto::UseKind> KindOf(Access lost) {
  if ((lost & kEnds) != 0) return proto::USE_ENDED;
  if ((lost & kReadsReferrers) != 0) return proto::USE_REFERRERS_READ;
  if ((lost & kShares) != 0) return proto::USE_SHARED;
  if ((lost & kReads) != 0) return proto::USE_READ;
  return std::nullopt;
}

constexpr const char* kLostWhileItWaited = "conflict with a transaction that was certified while it waited";
constexpr const char* kHasNotSeen = "conflict with a transaction that it has not seen";

}  // namespace

void Scheduler::Certify(CertifyRequest request) {
  const auto in_flight = entries_.find(request.tx_id);
  if (in_flight != entries_.end()) {
    in_flight->second->asked_to_certify = true;
    return;
  }
  if (request.refusal.reason.empty() && NamesAKeyTwice(request)) {
    request.refusal = {"malformed write-set: a key is named twice"};
  }
  Entry* entry = AddEntry(std::move(request));
  entry->asked_to_certify = true;
  entry->refusal = entry->request->refusal;
  if (entry->refusal.reason.empty()) TakeKeys(entry);
  if (entry->keys_waited_for == 0) ready_.push_back(entry);
}

void Scheduler::RequestOutcome(const TxId& tx_id, SpId sp_id) {
  const auto in_flight = entries_.find(tx_id);
  if (in_flight != entries_.end()) {
    in_flight->second->asked_for_outcome = true;
    return;
  }
  CertifyRequest nothing;
  nothing.tx_id = tx_id;
  nothing.sp_id = sp_id;
  Entry* entry = AddEntry(std::move(nothing));
  entry->asked_for_outcome = true;
  entry->refusal.reason = "its outcome was asked for before it was certified";
  ready_.push_back(entry);
}

Scheduler::Entry* Scheduler::AddEntry(CertifyRequest request) {
  auto entry = std::make_unique<Entry>();
  bytes_ += request.bytes();
  entry->request = std::make_shared<const CertifyRequest>(std::move(request));
  Entry* added = entry.get();
  entries_.emplace(added->request->tx_id, std::move(entry));
  return added;
}

void Scheduler::TakeKeys(Entry* entry) {
  entry->keys = ClaimsOf(*entry->request);
  for (const KeyClaim& claim : entry->keys) {
    if (!LocksOf(claim).Take(claim.key, claim.access, entry)) ++entry->keys_waited_for;
  }
}

void Scheduler::LeaveKeys(Entry* entry) {
  const auto granted = [this](Entry* next) {
    const bool has_lost = !next->refusal.reason.empty();
    if (--next->keys_waited_for == 0 && !has_lost) ready_.push_back(next);
  };
  for (const KeyClaim& claim : std::exchange(entry->keys, {})) {
    LocksOf(claim).Leave(claim.key, entry, granted);
  }
}

std::vector<Scheduler::Entry*> Scheduler::LosersAgainst(const Entry& winner, GlobalT global_t) {
  std::vector<Entry*> losers;
  for (const KeyClaim& won : winner.keys) {
    LocksOf(won).ForEachWaiting(won.key, [&](const Locks::Claim& waiting) {
      const Access lost = LostBy(waiting.access, won.access);
      if (lost == 0 || !waiting.owner->refusal.reason.empty()) return;
      waiting.owner->refusal.reason = kLostWhileItWaited;
      waiting.owner->conflict = Conflict{
          {won.key.table_id, std::string(won.key.key)}, global_t, winner.request->sp_id, KindOf(lost)};
      losers.push_back(waiting.owner);
    });
  }
  return losers;
}

// global_t: under which it has committed now; 0: it has not.
void Scheduler::Release(Entry* entry, GlobalT global_t) {
  if (entry->refusal.reason.empty()) {
    // Those that waited arrived before this decision existed, so it cannot have seen it: if this one
    // committed, the others have lost. They need no keys for that, but still go through a batch, since the
    // same tx id may have been decided long ago (a repeated request).
    const std::vector<Entry*> losers = global_t > 0 ? LosersAgainst(*entry, global_t) : std::vector<Entry*>{};
    for (Entry* loser : losers) LeaveKeys(loser);
    for (Entry* loser : losers) ready_.push_back(loser);
    LeaveKeys(entry);
  }
  bytes_ -= entry->request->bytes();
  const TxId tx_id = entry->request->tx_id;  // a copy: the entry is erased below
  entries_.erase(tx_id);
}

void Scheduler::Refuse(const std::function<Refusal(const CertifyRequest&)>& refusal_of) {
  std::vector<Entry*> refused;
  std::vector<Entry*> waiting;  // of these
  for (const auto& [tx_id, entry] : entries_) {
    if (!entry->refusal.reason.empty()) continue;
    entry->refusal = refusal_of(*entry->request);
    if (entry->refusal.reason.empty()) continue;
    refused.push_back(entry.get());
    if (entry->keys_waited_for > 0) waiting.push_back(entry.get());
  }
  for (Entry* entry : refused) LeaveKeys(entry);
  for (Entry* entry : waiting) ready_.push_back(entry);
}

bool Scheduler::HasOtherWriter(SpId sp_id, const std::set<std::uint32_t>& table_ids) const {
  return std::ranges::any_of(entries_, [&](const auto& one) {
    const CertifyRequest& request = *one.second->request;
    const auto concerns = [&](const proto::Row& row) { return table_ids.contains(row.table_id()); };
    return request.sp_id != sp_id && (request.rows.kind() == proto::ENTRY_SCHEMA_CHANGE ||
                                      std::ranges::any_of(request.rows.rows(), concerns));
  });
}

bool Scheduler::IsSchemaChange(const Entry& entry) {
  return entry.refusal.reason.empty() && entry.request->rows.kind() == proto::ENTRY_SCHEMA_CHANGE;
}

bool Scheduler::MustBeFirst(const Entry& entry) {
  const auto reads_table = [](const proto::KeyUse& use) { return use.kind() == proto::USE_TABLE_READ; };
  return IsSchemaChange(entry) ||
         (entry.refusal.reason.empty() && std::ranges::any_of(entry.request->uses.keys(), reads_table));
}

// What it is certified against in memory is whole: it holds its keys, and if it must be the first, everything before it is decided.
void Scheduler::TakeTurn(Entry* entry) {
  if (!entry->refusal.reason.empty()) return;
  if (IsSchemaChange(*entry)) entry->refusal = writers_.Missing(*entry->request);
  if (entry->refusal.reason.empty()) {
    entry->conflict = references_.Lost(*entry->request);
    if (!entry->conflict) entry->conflict = writers_.LostRead(*entry->request);
    if (entry->conflict) entry->refusal.reason = kHasNotSeen;
  }
  changing_schema_ = IsSchemaChange(*entry);
  if (!entry->refusal.reason.empty()) LeaveKeys(entry);
}

std::optional<Batch> Scheduler::NextBatch() {
  Batch batch{last_batch_id_ + 1, {}, {}};
  std::size_t batch_bytes = 0;
  while (!changing_schema_ && !ready_.empty() && batch.items.size() < limits_.batch_transactions_max) {
    Entry* entry = ready_.front();
    if (MustBeFirst(*entry) && (!batch.items.empty() || !open_batches_.empty())) break;
    TakeTurn(entry);
    const bool may_commit = entry->refusal.reason.empty();
    const std::size_t entry_bytes = may_commit ? entry->request->write_set.size() : 0;
    if (!batch.items.empty() && batch_bytes + entry_bytes > limits_.batch_bytes_max) break;
    batch_bytes += entry_bytes;
    ready_.pop_front();
    const GlobalT global_t = may_commit ? ++last_t_ : 0;
    if (global_t > 0)
      batch.numbers = {batch.numbers.first_t > 0 ? batch.numbers.first_t : global_t, global_t};
    batch.items.push_back({entry->request, global_t, entry->refusal.reason, entry->conflict});
  }
  if (batch.items.empty()) return std::nullopt;
  last_batch_id_ = batch.batch_id;
  open_batches_.push_back({batch.batch_id, false, batch.items, {}});
  return batch;
}

Scheduler::Decided Scheduler::Conclude(const BatchItem& item, const Verdict& verdict, OpenBatch* batch) {
  Entry* entry = entries_.at(item.request->tx_id).get();
  // Its number is not one of this batch's: an earlier request was decided, and published then.
  const bool committed_now = item.global_t > 0 && verdict.global_t == item.global_t;
  if (committed_now) {
    batch->committed.push_back({item.global_t, item.request});
    newest_commit_ = std::max(newest_commit_, item.global_t);
    writers_.Note(*item.request, item.global_t);
    references_.Note(*item.request, item.global_t);
  }
  Decided decided{item.request, entry->asked_to_certify, entry->asked_for_outcome,
                  entry->refusal.older_catalog, verdict};
  Release(entry, committed_now ? item.global_t : 0);
  return decided;
}

Scheduler::Finished Scheduler::Finish(const BatchResult& result) {
  const auto batch = std::find_if(open_batches_.begin(), open_batches_.end(),
                                  [&](const OpenBatch& open) { return open.batch_id == result.batch_id; });
  assert(batch != open_batches_.end() && batch->items.size() == result.verdicts.size());
  Finished finished;
  for (std::size_t i = 0; i < batch->items.size(); ++i) {
    finished.decided.push_back(Conclude(batch->items[i], result.verdicts[i], &*batch));
  }
  batch->finished = true;
  changing_schema_ = false;  // if it was true, this was the schema change
  while (!open_batches_.empty() && open_batches_.front().finished) {
    auto& committed = open_batches_.front().committed;
    std::move(committed.begin(), committed.end(), std::back_inserter(finished.committed));
    open_batches_.pop_front();
  }
  return finished;
}

}  // namespace psp::primary
