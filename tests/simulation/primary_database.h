// The primary's PostgreSQL: psp.data, psp.tx_log, psp.replication_log as maps, and the certification rule as
// in sql/primary/daemon/certify_batch.sql. A batch is atomic, and on this server's disk, when Decide returns.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/epochs.h"
#include "common/ids.h"
#include "primary/certify/types.h"
#include "primary/publish/housework.h"
#include "primary/publish/streams.h"
#include "tests/simulation/history.h"
#include "tests/simulation/rows.h"
#include "tests/simulation/scenario.h"

namespace psp::simulation {

class PrimaryDatabase {
 public:
  struct Row {
    GlobalT global_t = 0;
    SpId sp_id = 0;
    bool deleted = false;
    std::string image;
  };
  struct LogEntry {
    TxId tx_id;
    SpId sp_id = 0;
    std::string write_set;
  };

  // The rows of the application at adoption.
  PrimaryDatabase(const Scenario& scenario, const History& history);

  // One batch: duplicates, conflicts, winners, decisions, log.
  std::vector<primary::Verdict> Decide(const primary::Batch& batch);

  // The WAL position: how much was ever written.
  std::uint64_t written() const { return written_; }

  // `history`: what this start draws.
  Epoch BeginEpoch(const std::string& history);
  const EpochStarts& epochs() const { return epochs_; }
  Commits kept() const;
  std::vector<GlobalT> newest_ts() const;  // when each epoch began
  GlobalT closed_t() const;
  GlobalT unbroken_t() const { return UnbrokenUpTo(settled_t_, decided_); }
  GlobalT truncated_t() const { return truncated_t_; }
  std::vector<primary::RegistryRow> Registry() const;
  const KnownTables& Tables() const { return tables_; }
  // Its table was dropped, or emptied after it was written: nobody may get it any more.
  bool IsGone(const RowKey& key, const Row& row) const;
  primary::LogChunk Read(const primary::ReadLog& work) const;
  primary::EncodedCopyChunk Read(Epoch epoch, const primary::ReadCopy& work) const;
  primary::HouseReport Keep(const primary::HouseWork& work);

  // A new SP, which will join.
  void Register(SpId sp_id) {
    acked_[sp_id] = -1;
    ++written_;
  }
  bool IsRegistered(SpId sp_id) const { return acked_.contains(sp_id); }
  void Release(SpId sp_id);

  // For the checks: all that was ever committed and decided, and the rows now.
  const std::map<GlobalT, TxId>& committed() const { return committed_; }
  const primary::Verdict* DecisionOf(const TxId& tx_id) const;
  const std::map<RowKey, Row>& data() const { return data_; }

 private:
  KnownTable AsAdopted(std::uint32_t number) const;
  std::optional<Conflict> Lost(const primary::BatchItem& item) const;
  std::optional<Conflict> LostOn(const RowKey& key, const primary::CertifyRequest& request) const;
  void Write(const primary::BatchItem& item);
  void ChangeCatalog(const proto::WriteSet& change, GlobalT global_t);
  std::uint32_t CatalogVersionAt(GlobalT global_t) const;
  void Truncate();
  bool Collect();
  void Purge();
  bool MayBeForgotten(const primary::BatchItem& item) const;

  Mutation mutation_;
  std::uint64_t written_ = 1;
  Epoch epoch_ = 0;
  EpochStarts epochs_;
  std::map<std::string, GlobalT> kept_t_;  // by history
  GlobalT truncated_t_ = 0;
  GlobalT settled_t_ = 0;
  GlobalT collected_t_ = 0;
  std::vector<NumberRange> decided_;
  std::map<SpId, GlobalT> acked_;
  std::map<SpId, GlobalT> joins_;  // join_t, where it is not null
  KnownTables tables_;
  std::map<std::uint32_t, GlobalT> emptied_;  // when each table was
  std::vector<GlobalT> versions_;             // by which each version from 2 on came
  std::map<RowKey, Row> data_;
  const History* history_;  // for the transactions' xids, which real ids have in them
  std::map<TxId, primary::Verdict> tx_log_;
  std::map<SpId, std::int64_t> forgotten_xid_;
  std::map<TxId, primary::Verdict> ever_decided_;
  std::map<GlobalT, LogEntry> log_;
  std::map<GlobalT, TxId> committed_;
};

}  // namespace psp::simulation
