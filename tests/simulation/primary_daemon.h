// The primary's daemon: the real scheduler, connections, streams, intake and acknowledgements, joined in the
// order of primary/server.cc. Its threads are fakes that answer after a while. Destroying it is a crash.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>

#include "primary/certify/scheduler.h"
#include "primary/connections/connections.h"
#include "primary/intake.h"
#include "primary/publish/acknowledgements.h"
#include "primary/publish/streams.h"
#include "tests/simulation/network.h"
#include "tests/simulation/primary_database.h"

namespace psp::simulation {

inline constexpr const char* kClusterId = "sixteen bytes id";
inline constexpr std::int64_t kHeartbeatTimeoutUs = 600'000;

class PrimaryDaemon {
 public:
  PrimaryDaemon(Simulator* sim, const Scenario& scenario, PrimaryDatabase* database, Network* network);
  // A crash: each batch under way commits or does not, and nobody is told.
  ~PrimaryDaemon();

  bool idle() const { return scheduler_.idle(); }
  GlobalT closed_t() const { return streams_.closed_t(); }

 private:
  // What went over the present connection of an SP, to check the order.
  struct Sent {
    bool has_stream = false;
    GlobalT closed_t = 0;   // of the last Replicate
    GlobalT applied_t = 0;  // as the SP told since
  };

  void OnMessage(const std::string& route, const std::string& bytes);
  void OnHello(const std::string& route, const proto::Hello& hello);
  void OnCertify(SpId sp_id, proto::Certify* message);
  void OnRecover(SpId sp_id, GlobalT from_t);
  void OnApplied(SpId sp_id, GlobalT applied_t);
  void OnHeartbeat(SpId sp_id, const proto::Heartbeat& heartbeat);

  void Dispatch();
  void RunBatch(const Batch& batch);
  void CommitBatch(std::uint64_t batch_id);
  void OnBatchResult(const BatchResult& result);
  void Tell(const Scheduler::Decided& decided);
  void Publish(const std::vector<Scheduler::Committed>& committed);
  void Carry(Streams::Actions actions);
  void CheckOrder(SpId sp_id, const std::string& bytes);
  void SendTo(SpId sp_id, proto::ToSemiPrimary* message);
  void Refuse(SpId sp_id, proto::Refused::Reason reason);
  void Forget(SpId sp_id);
  proto::ToSemiPrimary Welcome(bool say_hello) const;
  void Tick();

  Simulator& sim_;
  const Scenario& scenario_;
  PrimaryDatabase& database_;
  Network& network_;
  const Epoch epoch_;
  GlobalT truncated_t_;
  Connections connections_;
  Intake intake_;
  Scheduler scheduler_;
  Streams streams_;
  Acknowledgements acknowledgements_;
  std::map<std::uint64_t, Batch> running_;
  std::set<RowKey> running_keys_;
  std::map<SpId, Sent> sent_;
  std::set<TxId> told_;  // decided by this daemon
  const std::shared_ptr<const int> alive_ = std::make_shared<int>(0);
};

}  // namespace psp::simulation
