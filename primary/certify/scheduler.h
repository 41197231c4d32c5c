// Which transactions may be certified now: the thesis's pre-certification, without sockets, threads or SQL.
//
// A transaction holds all its keys from the moment it arrives until its decision is durable; a transaction
// that comes later for one of them waits in order of arrival, unless both only read it or both only share it.
// So batches may run side by side, and what a batch is certified against (psp.data; the references in memory) is up to
// date for every key of a batch that is dispatched.
// A schema change is decided alone, after all that became ready before it and before all that becomes ready
// after it. One that has read a whole table is decided after all that became ready before it.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "primary/certify/key_claims.h"
#include "primary/certify/key_locks.h"
#include "primary/certify/references.h"
#include "primary/certify/table_writers.h"
#include "primary/certify/types.h"

namespace psp::primary {

// Pure; one thread.
class Scheduler {
 public:
  struct Limits {
    std::size_t batch_transactions_max = 256;
    std::size_t batch_bytes_max = 64 << 20;  // of write-sets; a single larger one is a batch of its own
    std::size_t references_remembered_max = 500'000;  // see References
  };

  // One decision for each transaction, for the SP that sent it: a repeated request comes from the same SP, and gets the
  // decision that was made the first time.
  struct Decided {
    std::shared_ptr<const CertifyRequest> request;
    bool asked_to_certify = false;
    bool asked_for_outcome = false;
    bool older_catalog = false;  // this is why it is aborted
    Verdict verdict;
  };

  // A transaction to publish, in order of global_t.
  struct Committed {
    GlobalT global_t = 0;
    std::shared_ptr<const CertifyRequest> request;
  };

  struct Finished {
    std::vector<Decided> decided;      // at once, in any order
    std::vector<Committed> committed;  // all that has become publishable: may come from earlier batches
    std::uint64_t batch_id = 0;        // as the core has set it, and
    std::int64_t sent_us = 0;          // when the core has given the batch away
  };

  // Numbers are given from last_t + 1 on.
  Scheduler(Limits limits, GlobalT last_t)
      : limits_(limits),
        last_t_(last_t),
        newest_commit_(last_t),
        writers_(last_t),
        references_(last_t, limits.references_remembered_max) {}

  // Takes the request. A request whose tx id is in flight already is dropped: the first one's answer is for
  // both. A write-set that names a key twice becomes a refusal.
  void Certify(CertifyRequest request);

  // Asks for a definite outcome. A transaction that was never certified is recorded as aborted.
  void RequestOutcome(const TxId& tx_id, SpId sp_id);

  // The transactions that are ready, oldest first; nothing if there are none. Called when an executor is
  // free.
  std::optional<Batch> NextBatch();

  // Whether NextBatch has something, unless it must be the first and something is in flight.
  bool has_ready() const { return !ready_.empty(); }

  // Takes the decisions of a dispatched batch.
  Finished Finish(const BatchResult& result);

  // After a schema change: asks about each transaction that waits, and aborts those with a reason.
  void Refuse(const std::function<Refusal(const CertifyRequest&)>& refusal_of);

  // Whether a transaction of another semi-primary that writes one of these tables, or a schema change of one, is not decided yet.
  bool HasOtherWriter(SpId sp_id, const std::set<std::uint32_t>& table_ids) const;
  // The number of the last one that has committed, published or not; where this one began if none has.
  GlobalT newest_commit() const { return newest_commit_; }

  // Nothing waits and nothing is in flight.
  bool idle() const { return entries_.empty(); }
  std::size_t transactions() const { return entries_.size(); }
  std::size_t bytes() const { return bytes_; }

 private:
  struct Entry {
    std::shared_ptr<const CertifyRequest> request;
    bool asked_to_certify = false;
    bool asked_for_outcome = false;
    std::vector<KeyClaim> keys;  // all that it holds or waits for
    std::size_t keys_waited_for = 0;
    Refusal refusal{};                 // with a reason: it holds no keys, and waits for none
    std::optional<Conflict> conflict;  // the reason
  };
  using Locks = KeyLocks<Entry>;
  struct OpenBatch {
    std::uint64_t batch_id = 0;
    bool finished = false;
    std::vector<BatchItem> items;
    std::vector<Committed> committed;
  };

  Entry* AddEntry(CertifyRequest request);
  void TakeKeys(Entry* entry);
  void LeaveKeys(Entry* entry);
  Locks& LocksOf(const KeyClaim& claim) { return claim.is_reference ? reference_locks_ : row_locks_; }
  std::vector<Entry*> LosersAgainst(const Entry& winner, GlobalT global_t);
  void Release(Entry* entry, GlobalT global_t);
  static bool IsSchemaChange(const Entry& entry);
  static bool MustBeFirst(const Entry& entry);
  void TakeTurn(Entry* entry);
  Decided Conclude(const BatchItem& item, const Verdict& verdict, OpenBatch* batch);

  const Limits limits_;
  GlobalT last_t_;
  GlobalT newest_commit_;
  TableWriters writers_;
  References references_;
  bool changing_schema_ = false;  // a schema change is in flight, and nothing else
  std::uint64_t last_batch_id_ = 0;
  std::size_t bytes_ = 0;
  std::unordered_map<TxId, std::unique_ptr<Entry>> entries_;
  Locks row_locks_;
  Locks reference_locks_;
  std::deque<Entry*> ready_;
  std::deque<OpenBatch> open_batches_;  // in order of their ranges
};

}  // namespace psp::primary
