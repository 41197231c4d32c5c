// The semi-primary's main loop: wires the stages together and owns the socket to the primary.
//
// One thread runs Run(); it owns all pure state (submissions, stream position). The hook's server, the apply
// worker, the blocker watch and the status writer have threads of their own and post into mailboxes.
//
// Connection: Hello (epoch 0) is said until Welcome comes; then Recover from where the stream stands, and
// everything open is sent again. Silence for heartbeat_timeout_ms, or Welcome{say_hello}, begins anew.
// Messages of another epoch are dropped.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <variant>
#include <zmq.hpp>

#include "common/queue.h"
#include "common/signals.h"
#include "common/sockets.h"
#include "semi_primary/apply/apply_worker.h"
#include "semi_primary/apply/stream_position.h"
#include "semi_primary/commit_hook/hook_server.h"
#include "semi_primary/settings.h"
#include "semi_primary/status_writer.h"
#include "semi_primary/submit/submissions.h"

namespace psp {

class Server {
 public:
  Server(const SemiPrimarySettings& settings, const ListenAddress& address, const Identity& identity,
         StatusWriter* status);

  // Binds the hook's address. The error says what is wrong with it.
  Result<Done, std::string> Start();
  // Serves until a signal comes. Returns the exit code.
  int Run(StopSignals& stop);

 private:
  struct BackendGone {
    HookConnectionId connection = 0;
  };
  struct FromBackend {
    HookConnectionId connection = 0;
    HookRequest request;
  };
  using HookEvent = std::variant<FromBackend, BackendGone>;

  void Step(int timeout_ms, StopSignals* stop);
  void ShutDown();

  void TakeHookEvents();
  void OnBackend(FromBackend event);
  void TakeApplyEvents();
  void OnApplyStarted(const ApplyStarted& started);
  void OnApplyProgress(const ApplyProgress& progress);

  void TakeMessages();
  void OnMessage(const proto::ToSemiPrimary& message);
  void OnWelcome(Epoch epoch, const proto::Welcome& welcome);
  void OnRefused(const proto::Refused& refused);
  void OnReplicate(const proto::Replicate& replicate);
  void OnSnapshotChunk(const proto::SnapshotChunk& chunk);

  void OnTime(std::int64_t now_us);
  bool AskName(SpId sp_id);
  void SayHello();
  void Disconnect(const char* why);
  void Recover();
  void SendHeartbeat(std::int64_t now_us);
  void Flush();  // replies to backends, messages to the primary
  bool Send(proto::ToPrimary* message);
  KeyNames NamesOf(std::uint32_t table_id) const;
  std::string StateName() const;
  void PublishStatus(std::int64_t now_us);

  const SemiPrimarySettings settings_;
  const Identity identity_;
  const std::uint64_t incarnation_;
  StatusWriter* const status_;
  Mailbox<HookEvent> hook_events_;
  Mailbox<ApplyEvent> apply_events_;
  zmq::context_t context_;
  DealerSocket primary_;
  Submissions submissions_;
  StreamPosition position_;
  TableCatalogPtr catalog_;
  std::map<SpId, std::string> sp_names_;

  Epoch epoch_ = 0;           // 0: not connected
  bool asking_name_ = false;  // Hello was said for a name: what comes before Welcome is dropped
  bool stopping_ = false;
  bool fatal_ = false;
  std::uint64_t generation_ = 0;  // of the stream; 0: the apply worker has not begun
  bool joining_ = false;
  bool copy_received_ = false;  // all of the table has arrived
  bool recovering_ = false;     // asked to stream again, nothing taken since
  GlobalT catch_up_t_ = 0;      // the primary's closed_t at Welcome
  GlobalT watermark_ = 0;
  GlobalT durable_ = 0;
  GlobalT acked_ = -1;
  GlobalT closed_t_ = 0;
  std::int64_t behind_since_us_ = 0;
  std::int64_t heartbeat_interval_us_ = 500'000;
  std::int64_t heard_us_ = 0;
  std::int64_t hello_us_ = 0;
  std::int64_t heartbeat_us_ = 0;
  std::int64_t recover_us_ = 0;
  std::int64_t status_us_ = 0;
  double rtt_ms_ = 0;
  std::int64_t copied_rows_ = 0;
  std::int64_t copy_rows_total_ = 0;
  std::string failure_;  // of the apply worker
  std::string last_error_;

  // Their threads call into the members above: last to be made, first to end.
  ApplyWorker apply_;
  BlockerWatch blockers_;
  HookServer hook_;
};

}  // namespace psp
