// The apply worker of an SP as a chain of events: takes some transactions, makes sure that own ones are in,
// waits for row locks, ends blockers after the grace, writes, moves W. Uses the real BuildBatch.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "tests/simulation/rows.h"
#include "tests/simulation/scenario.h"
#include "tests/simulation/sp_database.h"

namespace psp::simulation {

struct Arrived {
  GlobalT global_t = 0;
  TxId tx_id;
  bool own = false;
  WriteSetPtr write_set;  // of an own one: null when nobody knows its rows
  GlobalT upto_t = 0;     // W once it is applied
};

class Applier {
 public:
  static constexpr SpDatabase::LockOwner kLockOwner = 1'000'000;

  struct Hooks {
    std::function<void(GlobalT watermark)> applied;          // later, as from another thread
    std::function<void(SpDatabase::LockOwner)> end_blocker;  // if it is not at COMMIT
  };

  Applier(Simulator* sim, const Scenario& scenario, SpDatabase* database, Hooks hooks)
      : sim_(*sim), scenario_(scenario), database_(*database), hooks_(std::move(hooks)) {}
  ~Applier() { database_.Unlock(kLockOwner); }  // its session ends with the daemon

  void Take(Arrived arrived);
  // PostgreSQL went away: everything is forgotten.
  void Reset();
  void SetStalled(bool stalled);
  bool idle() const { return batch_.empty() && queue_.empty(); }

 private:
  void Begin();
  void FindOwn();
  bool IsIn(const Arrived& own);
  void Build();
  void LockRows();
  void Write();
  void Later(std::int64_t low_us, std::int64_t high_us, void (Applier::*step)());

  Simulator& sim_;
  const Scenario& scenario_;
  SpDatabase& database_;
  const Hooks hooks_;
  bool stalled_ = false;
  Simulator::Owner work_ = std::make_shared<int>(0);  // what is under way dies with it
  std::deque<Arrived> queue_;
  std::vector<Arrived> batch_;
  std::size_t next_own_ = 0;
  std::vector<const proto::WriteSet*> write_sets_;
  RowChanges changes_;
  std::int64_t blocked_since_us_ = 0;
};

}  // namespace psp::simulation
