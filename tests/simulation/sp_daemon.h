// An SP's daemon: the real submissions and stream position, with the glue that a poll loop would have around
// them. Destroying it is a crash.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "semi_primary/apply/stream_position.h"
#include "semi_primary/submit/submissions.h"
#include "tests/simulation/applier.h"
#include "tests/simulation/network.h"

namespace psp::simulation {

class SpDaemon {
 public:
  struct Hooks {
    std::function<void(const Submissions::Reply&)> reply;
    std::function<void(SpDatabase::LockOwner)> end_blocker;
  };

  SpDaemon(Simulator* sim, const Scenario& scenario, SpId sp_id, SpDatabase* database, Network* network,
           Hooks hooks);
  ~SpDaemon();

  // From backends.
  void Submit(const Submission& submission);
  void AskOutcome(Ticket ticket, const TxId& tx_id);
  void BackendGone(Ticket ticket);

  void OnPostgresCrash() { applier_.Reset(); }
  void OnPostgresBack();
  void SetStalled(bool stalled) { applier_.SetStalled(stalled); }

  // Nothing waits, and everything up to `closed_t` is applied.
  bool Drained(GlobalT closed_t) const;

 private:
  void OnMessage(Network::Link link, const std::string& bytes);
  void OnWelcome(const proto::ToSemiPrimary& message);
  void OnReplicate(const proto::Replicate& replicate);
  void Learn(const Arrived& arrived, SpId sp_id);
  void Disconnect();
  void SayHello();
  void Recover();
  void Tick();
  void Acknowledge();
  void Pump();
  void Send(proto::ToPrimary* message);

  Simulator& sim_;
  const Scenario& scenario_;
  const SpId sp_id_;
  SpDatabase& database_;
  Network& network_;
  const Hooks hooks_;
  const std::uint64_t incarnation_;
  Submissions submissions_;
  StreamPosition position_;
  Applier applier_;
  Network::Link link_ = 0;
  bool welcomed_ = false;
  bool recovering_ = false;  // asked for the stream from position(): until it comes, gaps are no news
  Epoch epoch_ = 0;
  std::int64_t said_hello_us_ = 0;
  std::int64_t ticks_ = 0;
  const std::shared_ptr<const int> alive_ = std::make_shared<int>(0);
};

}  // namespace psp::simulation
