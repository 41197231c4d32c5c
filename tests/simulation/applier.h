// The apply worker of an SP as a chain of events: takes some steps, makes sure that own transactions are in,
// waits for row locks, ends blockers after the grace, writes, moves W. Uses the real BuildBatch.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "semi_primary/apply/types.h"
#include "tests/simulation/rows.h"
#include "tests/simulation/scenario.h"
#include "tests/simulation/sp_database.h"

namespace psp::simulation {

class Applier {
 public:
  static constexpr SpDatabase::LockOwner kLockOwner = 1'000'000;

  struct Hooks {
    std::function<void(const ApplyEvent&)> report;           // later and in order, as from another thread
    std::function<void(SpDatabase::LockOwner)> end_blocker;  // if it is not at COMMIT
  };

  Applier(Simulator* sim, const Scenario& scenario, SpDatabase* database, Hooks hooks);
  ~Applier() { database_.Unlock(kLockOwner); }  // its session ends with the daemon

  void Push(ApplyStep step);
  // Looks where the database stands; what was pushed for an earlier generation is dropped.
  void Begin();
  void OnPostgresCrash();
  void SetStalled(bool stalled);
  bool idle() const { return !busy_ && queue_.empty(); }

 private:
  void Next();
  void FindOwn();
  bool IsIn(const ApplyTransaction& own);
  void Build();
  void LockRows();
  void Write();
  void Copy();
  void Done(SpState next);
  void MakeDurable();
  void ReportProgress();
  void Report(ApplyEvent event);
  void Later(std::int64_t low_us, std::int64_t high_us, void (Applier::*step)());

  Simulator& sim_;
  const Scenario& scenario_;
  SpDatabase& database_;
  const Hooks hooks_;
  bool stalled_ = false;
  const Simulator::Owner alive_ = std::make_shared<int>(0);
  Simulator::Owner work_ = std::make_shared<int>(0);  // what is under way dies with it
  std::int64_t report_free_us_ = 0;                   // reports keep their order
  std::uint64_t generation_ = 0;
  bool connected_ = false;
  std::int64_t copied_rows_ = 0;
  GlobalT complete_t_ = INT64_MAX;  // joined when W has come here; no copy is complete: the maximum
  GlobalT durable_ = -1;
  std::deque<ApplyStep> queue_;
  // Under way:
  bool busy_ = false;
  ApplyStep copy_;
  std::vector<ApplyTransaction> batch_;
  GlobalT upto_t_ = 0;
  std::size_t next_own_ = 0;
  std::vector<WrittenRows> written_;
  RowChanges changes_;
  std::int64_t blocked_since_us_ = 0;
};

}  // namespace psp::simulation
