// The apply worker of an SP: the real core, with a database and an inbox that answer later.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "semi_primary/apply/apply_core.h"
#include "semi_primary/apply/types.h"
#include "tests/simulation/rows.h"
#include "tests/simulation/scenario.h"
#include "tests/simulation/sp_database.h"

namespace psp::simulation {

class Applier {
 public:
  static constexpr SpDatabase::LockOwner kLockOwner = 1'000'000;

  struct Hooks {
    std::function<void(const sp::ApplyEvent&)> report;       // later and in order, as from another thread
    std::function<void(SpDatabase::LockOwner)> end_blocker;  // if it is not at COMMIT
  };

  Applier(Simulator* sim, const Scenario& scenario, SpDatabase* database, Hooks hooks);
  ~Applier() { database_.Unlock(kLockOwner); }  // its session ends with the daemon

  void Push(sp::ApplyStep step);
  void OnPostgresCrash();
  void OnPostgresBack();
  void SetStalled(bool stalled);
  bool idle() const { return std::holds_alternative<sp::TakeSteps>(request_) && queue_.empty(); }

 private:
  // Asks the core what is to be done, and does it.
  void Next();
  void Answered();
  bool SessionIsBroken() const;
  void Report(sp::ApplyEvent event);

  // One for each kind of request. Each answers the core at once or later.
  void Do(const sp::ConnectSession& request);
  void Do(const sp::ReadPosition& request);
  void Do(const sp::ClaimApply& request);
  void Do(const sp::ReadCatalog& request);
  void Do(const sp::TakeSteps& request);
  void Do(const sp::FindMissingProofs& request);
  void Do(const sp::WaitForBackend& request);
  void Do(const sp::ApplyTemporaryRows& request);
  void Do(const sp::RunStatements& request);
  void Do(const sp::LookAlive& request);
  void Do(const sp::Pause& request);
  void Do(const sp::EndWorker& request);

  void TakeFromQueue();
  std::vector<GlobalT> MissingOf(const std::vector<GlobalT>& own) const;
  void LookForProofs();
  void TellPosition();
  std::set<SpDatabase::LockOwner> TryLocks();
  void LockRows();
  void Commit(const sp::ApplyStatements& statements);

  // Later, unless the daemon ends or the session breaks before.
  template <class Action>
  void Later(std::int64_t low_us, std::int64_t high_us, Action action) {
    sim_.After(sim_.Between(low_us, high_us), work_, std::move(action));
  }

  Simulator& sim_;
  const Scenario& scenario_;
  SpDatabase& database_;
  const Hooks hooks_;
  sp::ApplyCore core_;
  bool stalled_ = false;
  const Simulator::Owner alive_ = std::make_shared<int>(0);
  Simulator::Owner work_ = std::make_shared<int>(0);  // what is under way dies with it
  std::int64_t report_free_us_ = 0;                   // reports keep their order
  std::deque<sp::ApplyStep> queue_;
  // Of the session: which start of PostgreSQL it is connected to; null: none.
  Simulator::Owner session_;
  // Under way:
  sp::ApplyRequest request_ = sp::EndWorker{};
  bool is_asking_ = false;  // the core has a request that waits for its answer
  bool is_taking_ = false;  // steps are on their way to the core
  std::vector<sp::ApplyTransaction> taken_;
  RowChanges changes_;
  std::int64_t blocked_since_us_ = 0;
};

}  // namespace psp::simulation
