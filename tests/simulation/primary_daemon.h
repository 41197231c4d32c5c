// The primary's daemon: the real core and the real proof gate, with fakes for what primary/server.cc joins it to: executors,
// catch-up reader and housekeeper that answer after a while. Destroying it is a crash.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "primary/certify/proof_gate.h"
#include "primary/core/core.h"
#include "tests/simulation/network.h"
#include "tests/simulation/primary_database.h"
#include "tests/simulation/standby.h"

namespace psp::simulation {

inline constexpr const char* kClusterId = "sixteen bytes id";
inline constexpr std::int64_t kHeartbeatTimeoutUs = 600'000;
inline constexpr std::int64_t kAwayUs = 3'000'000;

class PrimaryDaemon {
 public:
  using OnReady = std::function<void(const std::vector<std::string>& unheard)>;

  // `epoch`: which this daemon has begun in the database. `standby` may be null. `address`: where it listens.
  // `on_ready`: it can decide, without having heard some; called once.
  PrimaryDaemon(Simulator* sim, const Scenario& scenario, PrimaryDatabase* database, const Standby* standby,
                Epoch epoch, Network* network, std::size_t address, OnReady on_ready);
  // A crash: each batch under way commits or does not, and nobody is told.
  ~PrimaryDaemon();

  // A crash that follows is a planned end; nothing is decided any more. At any moment, while the daemon decides first what it has.
  void SayAway();
  // Whether some SP has neither answered nor become silent.
  bool IsHeardByAll() const { return core_.unaware().empty(); }
  // After SayAway: it was connected then, and has neither become silent nor lost its connection since.
  bool WasThereAtTheEnd(const std::string& sp_name) const { return there_at_the_end_.contains(sp_name); }

  bool idle() const { return core_.idle() && core_.hearing().is_over(); }
  const primary::Hearing& hearing() const { return core_.hearing(); }
  GlobalT closed_t() const { return core_.closed_t(); }

 private:
  // What an SP asked for last and what it was sent since, to check the order.
  struct Stream {
    enum class Phase { kNone, kCopy, kLog };
    std::string route{};  // over which it was welcomed
    Phase phase = Phase::kNone;
    GlobalT closed_t = 0;        // of the last Replicate
    GlobalT applied_t = 0;       // as the SP told since
    GlobalT snapshot_t = 0;      // of the copy
    std::int64_t rows_done = 0;  // of the copy
  };

  void OnMessage(const std::string& route, const std::string& bytes);
  void MakeMistakes(proto::Certify* certify);
  void NoteMessage(const std::string& route, const proto::ToPrimary& message);

  void Dispatch();
  void RunBatch(const primary::Batch& batch);
  void CommitBatch(std::uint64_t batch_id, bool is_repeated);
  void AwaitStandby(const primary::BatchResult& result, std::uint64_t position, bool is_repeated);
  void EndCommit(const primary::BatchResult& result, bool is_trusted);
  primary::Look LookAtStandby() const;
  void TakeProven();
  void LookAgain();
  // As soon as the standby has all that is written now.
  void WhenProven(std::function<void()> action);
  void TellProven();
  void OnBatchResult(const primary::BatchResult& result);
  void CarryOutActions();
  void Read(const primary::ReadLog& work);
  void Read(const primary::ReadCopy& work);
  void KeepHouse(const primary::HouseWork& work);
  void Watch();
  void CheckStandstill();
  void CheckSend(const primary::Core::Send& send);
  void CheckReplicate(SpId sp_id, const proto::Replicate& replicate);
  void CheckCopy(SpId sp_id, const proto::CopyChunk& chunk);
  void Tick();

  Simulator& sim_;
  const Scenario& scenario_;
  PrimaryDatabase& database_;
  const Standby* const standby_;
  Network& network_;
  const std::size_t address_;
  OnReady on_ready_;  // empty: it was called
  bool is_away_ = false;
  std::set<std::string> there_at_the_end_;
  const Epoch epoch_;
  primary::Core core_;
  primary::ProofGate gate_;
  bool looks_again_ = false;
  std::deque<std::pair<std::uint64_t, std::function<void()>>>
      unproven_;                                     // what was read, and at which position
  std::map<std::uint64_t, primary::Batch> running_;  // with those that the gate holds
  std::size_t busy_executors_ = 0;
  std::set<RowKey> running_keys_;
  std::map<SpId, Stream> streams_;
  std::set<TxId> told_;  // decided by this daemon
  std::map<TxId, std::uint32_t>
      changes_under_way_;           // schema changes that are not decided, and their versions
  std::int64_t house_free_us_ = 0;  // the housekeeper does one thing after the other
  primary::Sight sight_;            // the watch's
  std::uint64_t watched_position_ = 0;
  std::int64_t decided_us_ = 0;
  std::int64_t stands_since_us_;  // batches are under way, the standby is cut off, and nothing is decided
  const std::shared_ptr<const int> alive_ = std::make_shared<int>(0);
};

}  // namespace psp::simulation
