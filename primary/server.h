// The primary's main thread: owns the socket and all pure state, and joins the stages.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>
#include <zmq.hpp>

#include "common/log.h"
#include "common/queue.h"
#include "common/signals.h"
#include "common/sockets.h"
#include "primary/certify/executor_pool.h"
#include "primary/certify/scheduler.h"
#include "primary/connections/connections.h"
#include "primary/intake.h"
#include "primary/publish/acknowledgements.h"
#include "primary/publish/housekeeper.h"
#include "primary/publish/recoverer.h"
#include "primary/publish/streams.h"
#include "primary/settings.h"
#include "primary/startup.h"

namespace psp {

class Server {
 public:
  // Binds the socket (throws zmq::error_t) and starts the threads.
  Server(const PrimarySettings& settings, PrimaryState state, StopSignals* signals);

  // Serves until a signal or until another daemon has taken the database over; true for a signal. After a
  // signal nothing new is certified, what is in flight is decided and told.
  bool Run();

  std::string endpoint() const { return router_.last_endpoint(); }

 private:
  struct WaitingHello {
    std::uint64_t house_number = 0;
    std::string route;
    proto::Hello hello;
  };
  struct WaitingRequest {
    std::uint64_t house_number = 0;
    CertifyRequest request;
  };

  // One turn of the poll loop.
  void Turn();
  void TakeMessages();
  void TakeBatchResults();
  void TakeRecovererResults();
  void TakeHouseReports();
  void Tick(std::int64_t now_us);

  // One message each.
  void OnMessage(const std::string& route, proto::ToPrimary* message);
  void OnHello(const std::string& route, const proto::Hello& hello, bool registry_is_fresh);
  void OnCertify(SpId sp_id, proto::Certify* message);
  void OnRecover(SpId sp_id, const proto::Recover& recover);
  void OnOutcomeRequest(SpId sp_id, const proto::OutcomeRequest& request);
  void OnHeartbeat(SpId sp_id, const std::string& route, const proto::Heartbeat& heartbeat);

  void Admit(CertifyRequest request);
  void DispatchBatches();
  void Tell(const Scheduler::Decided& decided);
  void Publish(const std::vector<Scheduler::Committed>& committed);
  void Carry(Streams::Actions actions);
  void Refuse(SpId sp_id, proto::Refused::Reason reason, const std::string& message);
  void Forget(SpId sp_id, const char* why);
  void SendTo(SpId sp_id, proto::ToSemiPrimary* message);
  proto::ToSemiPrimary WelcomeMessage(bool say_hello) const;
  // Asks the housekeeper; its report will have the returned number or a higher one.
  std::uint64_t AskHousekeeper(bool truncate_log, bool purge_tx_log);
  bool MayStop(std::int64_t now_us) const;

  const PrimarySettings settings_;
  const Epoch epoch_;
  StopSignals* const signals_;
  LogOnce logged_;

  // The main thread's.
  GlobalT truncated_t_;
  Connections connections_;
  Intake intake_;
  Scheduler scheduler_;
  Streams streams_;
  Acknowledgements acknowledgements_;
  std::vector<WaitingHello> waiting_hellos_;
  std::vector<WaitingRequest> waiting_requests_;
  std::size_t waiting_bytes_ = 0;
  std::uint64_t house_number_ = 0;
  std::int64_t next_tick_us_ = 0;
  std::int64_t next_truncation_us_ = 0;
  std::int64_t next_purge_us_ = 0;
  std::int64_t stop_by_us_ = 0;  // 0: not stopping

  zmq::context_t context_;
  RouterSocket router_;

  // Set by other threads.
  std::atomic<bool> usurped_ = false;
  WakeUp usurped_wake_up_;

  // The threads; destroyed first.
  ExecutorPool executors_;
  Recoverer recoverer_;
  Housekeeper housekeeper_;
};

}  // namespace psp
