// The semi-primary's daemon: moves messages, requests and events between the pure core, the primary's socket,
// the front (native mode's commit hook, or the clients of views mode) and the threads of the other stages.
//
// One thread runs Run(); it owns the sockets, the front and the core. The apply worker, the watches and the
// housekeeper have threads of their own and post into mailboxes.
#pragma once

#include <memory>
#include <string>
#include <zmq.hpp>

#include "common/log.h"
#include "common/metrics/metrics_endpoint.h"
#include "common/queue.h"
#include "common/signals.h"
#include "semi_primary/apply/apply_worker.h"
#include "semi_primary/core/core.h"
#include "semi_primary/front/commits_in_flight.h"
#include "semi_primary/front/front.h"
#include "semi_primary/hold/hold_watch.h"
#include "semi_primary/housekeeping/housekeeper.h"
#include "semi_primary/jobs/job_runner.h"
#include "semi_primary/mrv_report/mrv_reporter.h"
#include "semi_primary/primary_sockets.h"
#include "semi_primary/settings.h"

namespace psp::sp {

class Server {
 public:
  // settings.hook_listen is a valid address in native mode.
  Server(const SemiPrimarySettings& settings, const Identity& identity, Housekeeper* housekeeper);

  // Before Run: where metrics are read, see metrics_listen. The error says what is wrong with the address.
  Result<Done, std::string> ServeMetrics() { return metrics_.Listen(settings_.metrics_listen); }
  // Starts the threads. The error says what is wrong with the front's address.
  Result<Done, std::string> Start();
  // Serves until a signal comes; returns the exit code. `on_ready` is called once, when the apply worker has
  // begun.
  int Run(
      StopSignals& stop, std::function<void()> on_ready = [] {});

 private:
  void Step(int timeout_ms, StopSignals* stop);
  void ShutDown();

  void TakeApplyEvents();
  void TakeMessages();
  // Gives the front's requests to the core.
  void PassRequests();
  // Carries out what the core wants done.
  void CarryOutActions();
  void PublishStatus(std::int64_t now_us);
  void Answer(CommitReply reply);
  std::string Metrics(std::int64_t now_us);
  std::string Illness() const;
  void ReportMrvs(std::int64_t now_us);

  const SemiPrimarySettings settings_;
  Housekeeper* const housekeeper_;
  Mailbox<ApplyEvent> apply_events_;
  const std::int64_t since_us_;
  MetricsEndpoint metrics_;
  zmq::context_t context_;
  PrimarySockets primary_;
  Core core_;
  LogOnce logged_;
  bool stopping_ = false;
  CommitsInFlight in_flight_;
  std::function<void()> on_ready_;  // not called yet, or empty
  std::int64_t status_us_ = 0;
  std::int64_t mrv_report_us_ = 0;

  // Their threads call into the members above: last to be made, first to end.
  ApplyWorker apply_;
  BlockerWatch blockers_;
  HoldWatch holds_;
  JobRunner jobs_;
  MrvReporter mrv_reporter_;
  std::unique_ptr<Front> front_;
};

}  // namespace psp::sp
