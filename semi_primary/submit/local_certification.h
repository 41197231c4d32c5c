// Local certification: the semi-primary itself looks for conflicts, in both directions. A new commit is
// compared with what has arrived and is not applied yet, and an arriving write-set with the local
// transactions that wait for the primary. Pure; one thread.
//
// It only answers earlier what the primary would answer too: a remote transaction g whose key a local T wrote
// without having seen g makes T lose, since g is certified already and T's own marker did not come before it.
// Seen: in T's snapshot, or, where the version that the row replaces is known (views mode), not newer than
// it.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "common/conflict.h"
#include "common/ids.h"
#include "proto/psp.pb.h"
#include "semi_primary/front/local_commit.h"

namespace psp::sp {

class LocalCertification {
 public:
  // A local transaction begins to wait. Returns its conflict with what has arrived; then it is not added.
  std::optional<Conflict> Add(const TxId& tx_id, const Snapshot& snapshot, const WriteSetPtr& write_set);
  // The transaction does not wait any more. An unknown one is ignored.
  void Remove(const TxId& tx_id);

  struct Doomed {
    TxId tx_id;
    Conflict conflict;
  };
  // A remote transaction arrived, in the order of global_t. Returns and removes the local ones that have
  // lost.
  std::vector<Doomed> Arrived(GlobalT global_t, SpId sp_id, const WriteSetPtr& write_set);

  // Everything <= watermark is applied and visible.
  void Applied(GlobalT watermark);
  // Forgets everything that has arrived: the stream begins again.
  void ForgetArrived();

  std::size_t arrived_transactions() const { return arrived_.size(); }

 private:
  struct Writer {
    GlobalT global_t = 0;
    SpId sp_id = 0;
  };
  struct ArrivedTransaction {
    GlobalT global_t = 0;
    WriteSetPtr write_set;
  };
  struct Waiting {
    Snapshot snapshot;
    WriteSetPtr write_set;
  };

  std::deque<ArrivedTransaction> arrived_;
  // The keys are views into the write-set of the entry's writer, so it lives as long as the entry.
  std::unordered_map<RowKeyView, Writer, RowKeyHash> writers_;
  std::unordered_map<TxId, Waiting> waiting_;
  struct WaitingRow {
    TxId tx_id;
    const proto::Row* row = nullptr;
  };
  // Views and pointers into waiting_'s write-sets.
  std::unordered_multimap<RowKeyView, WaitingRow, RowKeyHash> waiting_keys_;
};

}  // namespace psp::sp
