// One application connection and its backend: random read-modify-write transactions on a few hot rows, COMMIT
// through the hook, what it is told noted in the history.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/simulation/history.h"
#include "tests/simulation/schema.h"
#include "tests/simulation/sp_node.h"

namespace psp::simulation {

class Client {
 public:
  Client(Simulator* sim, const Scenario& scenario, SpNode* node, History* history,
         SpDatabase::LockOwner number);

  void Start() { Later(0, 20'000, &Client::Begin); }
  void Stop() { stopping_ = true; }
  bool idle() const { return open_ == nullptr && open_questions_ == 0; }

  void OnPostgresCrash();
  // It goes away with its SP, and asks nothing any more.
  void Retire();
  void EndIfRunning();  // the apply worker's grace is over

 private:
  enum class Kind {
    kIncrement,
    kSetName,
    kDeleteName,
    kSwapNames,
    kWriteNote,
    kChangeSchema,
    // client_references.cc
    kPutParent,
    kEndParent,
    kPutChild,
    kDeleteChild,
    kChangeDuty,
  };
  struct Operation {
    Kind kind = Kind::kIncrement;
    std::int64_t id = 0;
    std::int64_t other = 0;  // kSetName: the value; kSwapNames: the other id; kPutChild: the parent
    SchemaChange change{};   // kChangeSchema; kWriteNote: the table
  };
  struct Open {
    TxId tx_id;
    std::int64_t xid = 0;
    std::int64_t begun_us = 0;
    bool repeatable_read = false;
    SpStatePtr begin;
    std::size_t own_before = 0;  // how many own commits were reported at this SP
    std::vector<Operation> operations;
    std::size_t next = 0;
    std::int64_t blocked_since_us = 0;
    bool at_commit = false;
    // A schema change: the transaction, for the primary, whether others' writers of its table wait, and which connection has brought that.
    std::uint64_t number = 0;
    enum class Hold { kNotAsked, kAsked, kGranted, kWithout } hold = Hold::kNotAsked;
    std::uint32_t hold_timeout_ms = 0;  // 0: not drawn
    std::uint64_t hold_connection = 0;
    sp::Ticket ticket = 0;
    std::map<RowKey, std::optional<std::string>> writes;  // nothing: deleted
    std::set<RowKey> guards;
    proto::KeyUses uses;
    std::vector<RowKey> increments;
  };
  using Done = SpNode::Done;

  void Later(std::int64_t low_us, std::int64_t high_us, void (Client::*step)());
  void Begin();
  Operation Draw();
  Operation DrawReference();
  void Step();
  bool Execute(const Operation& operation);
  bool SetName(std::int64_t id, std::int64_t value);
  void PutParent(std::int64_t id);
  bool EndParent(std::int64_t id);
  bool PutChild(std::int64_t id, std::int64_t parent);
  bool IsOnCall(std::int64_t id);
  void ChangeDuty(std::int64_t id);
  void Use(proto::UseKind kind, const RowKey& key);
  std::shared_ptr<proto::KeyUses> MakeUses(const proto::WriteSet& write_set) const;
  static std::vector<RowKey> ChildrenOf(std::int64_t parent, const SpState& state);
  bool LockParent(const Operation& operation);
  Operation DrawChange(const Schema& schema);
  std::uint32_t Any(const std::set<std::uint32_t>& tables);
  bool Lock(const Operation& operation);
  bool MayHold(const Operation& operation) const;
  void AskForHold(const Operation& operation);
  void OnHold(const Done& answer);
  void CheckHold(const UserError& error) const;
  Schema VisibleSchema() const;
  RowKey NextChange() const;
  bool ChangeSchema(SchemaChange what);
  std::vector<RowKey> RowsOf(const Operation& operation) const;
  std::vector<RowKey> LocksOf(const Operation& operation) const;
  std::optional<std::string> Visible(const RowKey& key) const;
  bool IsTaken(std::int64_t value, const std::set<RowKey>& but_by) const;
  void Commit();
  std::shared_ptr<proto::WriteSet> MakeWriteSet() const;
  void OnDecision(const Done& decision);
  void EndCommitted(GlobalT global_t);
  void End(Report report);
  void CheckOwnWrites();
  void AskOutcome(const TxId& tx_id);

  Simulator& sim_;
  const Scenario& scenario_;
  SpNode& node_;
  History& history_;
  const SpDatabase::LockOwner number_;
  bool stopping_ = false;
  bool retired_ = false;
  int open_questions_ = 0;
  std::shared_ptr<Open> open_;  // what is under way in it dies with it

  // Its last commit, and what it left in counters, while PostgreSQL has not crashed since.
  Simulator::Owner last_incarnation_;
  GlobalT last_t_ = 0;
  std::map<RowKey, std::int64_t> last_values_;
};

}  // namespace psp::simulation
