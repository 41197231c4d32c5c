// The PostgreSQL of a semi-primary: rows, W, joining and psp.applied in one committed state, row locks,
// asynchronous commit. A crash falls back to some state between the last flush and the last commit.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "common/epochs.h"
#include "common/ids.h"
#include "semi_primary/submit/local_certification.h"
#include "tests/simulation/schema.h"
#include "tests/simulation/simulator.h"

namespace psp::simulation {

struct SpRow {
  std::string image;
  std::uint64_t version = 0;  // of the row, as its place in the table would tell
};

struct SpState {
  std::map<RowKey, SpRow> rows;
  GlobalT watermark = 0;
  bool joining = false;  // the copy of the table is not complete
  Commits applied;       // above W
  EpochStarts epochs;
  bool follows_any = false;
  std::uint64_t versions = 0;

  sp::Snapshot Snapshot() const;
  // As the history's rows make it.
  Schema SchemaNow() const;
  // A statement runs where its row is written.
  void Put(const RowKey& key, const std::string& image);
  // The row's version; 0: there is none.
  std::uint64_t VersionOf(const RowKey& key) const;
};
using SpStatePtr = std::shared_ptr<const SpState>;

struct Told {
  TxId tx_id;
  std::int64_t at_us = 0;
};

class SpDatabase {
 public:
  using LockOwner = std::uint64_t;

  SpDatabase(Simulator* sim, SpState initial);

  bool up() const { return up_; }
  // Changes at each crash.
  const Simulator::Owner& incarnation() const { return incarnation_; }
  const SpStatePtr& state() const { return state_; }

  void Commit(SpState next);
  // What the primary has told last of each number, by the stream or a decision. Only the checks ask for it.
  void NoteTold(GlobalT global_t, const std::string& tx_id);
  const std::map<GlobalT, Told>& told() const { return told_; }
  // The daemon's status, in an unlogged table: whether own commits were lacking. Nothing after a crash.
  void NoteStatus(bool lacks_own) { lacks_own_ = lacks_own; }
  bool MayLackOwn() const { return lacks_own_.value_or(true); }
  // What the last crash may have taken. Only a mistake asks for it.
  const Commits& applied_before_crash() const { return applied_before_crash_; }
  // The apply worker writes down its session, in an unlogged table. Without it the hook lets nobody commit.
  void ClaimApplySession() { has_apply_session_ = true; }
  bool has_apply_session() const { return has_apply_session_; }
  void Flush();
  void Crash();
  void Start() { up_ = true; }

  // Transactions that are running and have asked for a hold, as pg_xact_status tells.
  void BeginHolding(std::uint64_t transaction) { holding_.insert(transaction); }
  void EndHolding(std::uint64_t transaction) { holding_.erase(transaction); }
  bool IsHolding(std::uint64_t transaction) const { return holding_.contains(transaction); }

  // Row locks, locks of unique values and advisory locks (table_id 0). True: `owner` holds it now.
  bool TryLock(LockOwner owner, const RowKey& key);
  LockOwner HolderOf(const RowKey& key) const;  // 0: nobody
  // Writers of a table share it, a schema change of the table does not. Who is in the way; nobody: `owner` holds it now.
  enum class TableLock { kWrite, kChange };
  std::set<LockOwner> TryLockTable(LockOwner owner, std::uint32_t table_id, TableLock lock);
  void Unlock(LockOwner owner);

 private:
  Simulator& sim_;
  bool up_ = true;
  Simulator::Owner incarnation_ = std::make_shared<int>(0);
  SpStatePtr state_;
  SpStatePtr durable_;
  std::deque<SpStatePtr> not_durable_;
  std::map<RowKey, LockOwner> locks_;
  std::map<std::uint32_t, std::map<LockOwner, TableLock>> table_locks_;
  std::map<GlobalT, Told> told_;
  std::optional<bool> lacks_own_;
  bool has_apply_session_ = false;
  std::set<std::uint64_t> holding_;
  Commits applied_before_crash_;
};

RowKey AdvisoryLock(const TxId& tx_id);
// For TryLockTable: who inserts children of a parent shares it (FOR KEY SHARE), who deletes the parent does not.
std::uint32_t ParentLock(const RowKey& parent);

}  // namespace psp::simulation
