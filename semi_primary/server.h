// The semi-primary's main loop: moves messages between the socket to the primary, the core that decides, and
// the threads of the other stages.
//
// One thread runs Run(); it owns the socket and the core. The hook's server, the apply worker, the blocker
// watch and the status writer have threads of their own and post into mailboxes.
#pragma once

#include <string>
#include <variant>
#include <zmq.hpp>

#include "common/log.h"
#include "common/queue.h"
#include "common/signals.h"
#include "common/sockets.h"
#include "semi_primary/apply/apply_worker.h"
#include "semi_primary/commit_hook/hook_server.h"
#include "semi_primary/core.h"
#include "semi_primary/mrv_reporter.h"
#include "semi_primary/settings.h"
#include "semi_primary/status_writer.h"

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
  void TakeMessages();
  // Carries out what the core wants done.
  void Carry();
  void Answer(Submissions::Reply reply);
  void PublishStatus(std::int64_t now_us);
  void ReportMrvs(std::int64_t now_us);

  const SemiPrimarySettings settings_;
  StatusWriter* const status_;
  Mailbox<HookEvent> hook_events_;
  Mailbox<ApplyEvent> apply_events_;
  zmq::context_t context_;
  DealerSocket primary_;
  SemiPrimaryCore core_;
  LogOnce logged_;
  bool stopping_ = false;
  std::int64_t status_us_ = 0;
  std::int64_t mrv_report_us_ = 0;

  // Their threads call into the members above: last to be made, first to end.
  ApplyWorker apply_;
  BlockerWatch blockers_;
  MrvReporter mrv_reporter_;
  HookServer hook_;
};

}  // namespace psp
