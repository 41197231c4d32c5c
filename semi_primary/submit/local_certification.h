// Local certification: the semi-primary itself looks for conflicts, in both directions. A new commit is
// compared with what has arrived and is not applied yet, and an arriving write-set with the local
// transactions that wait for the primary. Pure; one thread.
//
// It only answers earlier what the primary would answer too: a remote transaction g whose key a local T wrote
// without having seen g makes T lose, since g is certified already and T's own marker did not come before it.
// Seen: in T's snapshot, or, where the version that the row replaces is known (views mode), not newer than
// it.
//
// The same holds for keys that T uses without writing them (writeset/FORMAT.md, "Key uses"), by T's snapshot:
//   READ        g has written the row
//   TABLE_READ  g has written a row of the table, or changed the table
//   SHARED      g has deleted the row, also if a later one has written it again: at the primary, too, a key that has
//               ended stays ended for those who have not seen it. What a schema change deletes is left to the primary,
//               since its rows do not tell whether their keys have ended (a later segment may have the row again).
// Who has lost with an ended key, or with referrers that were read, is found by the primary alone: the stream does not
// tell who shares a key. So is a shared key of another unique index: rows have primary keys.
#pragma once

#include <deque>
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
  std::optional<Conflict> Add(const TxId& tx_id, const Snapshot& snapshot, const WriteSetPtr& write_set,
                              const KeyUsesPtr& uses = nullptr);
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
  using Writers = std::unordered_map<RowKeyView, Writer, RowKeyHash>;
  struct ArrivedTransaction {
    Writer writer;
    WriteSetPtr write_set;
  };
  struct Waiting {
    Snapshot snapshot;
    WriteSetPtr write_set;
    KeyUsesPtr uses;
  };
  // How a waiting transaction uses a key. A table that it has read has the empty key, which no row has.
  struct Use {
    const proto::Row* row = nullptr;       // it is written
    std::optional<proto::UseKind> kind{};  // otherwise
  };
  struct WaitingUse {
    TxId tx_id;
    Use use;
  };

  // Calls visit(key, use) for each key of the transaction that can be compared.
  template <class Visit>
  static void ForEachUse(const Waiting& transaction, Visit visit);
  static bool HasSeen(const Use& use, const Snapshot& snapshot, GlobalT writer_t);
  static Conflict ConflictOf(const RowKeyView& key, const Use& use, const Writer& winner);
  // Puts the next one of arrived_ into writers_ and enders_. Calls visit(key, writer, has_ended) for each of its keys.
  template <class Visit>
  void NoteNext(Visit visit);
  void ForgetOldest();  // of arrived_, which is noted
  void Doom(const RowKeyView& key, const Writer& winner, bool has_ended, std::vector<Doomed>* doomed);

  std::deque<ArrivedTransaction> arrived_;
  // So many of the first ones are in writers_ and enders_: all of them while somebody waits. A semi-primary that only
  // applies never looks.
  std::size_t noted_ = 0;
  // Of each key, or of each table under the empty key, the newest one that has arrived. The keys are views into that
  // one's write-set, so it lives as long as the entry.
  Writers writers_;
  Writers enders_;  // the same, of those that have ended it
  std::unordered_map<TxId, Waiting> waiting_;
  // Views and pointers into waiting_'s write-sets and uses.
  std::unordered_multimap<RowKeyView, WaitingUse, RowKeyHash> waiting_uses_;
};

}  // namespace psp::sp
