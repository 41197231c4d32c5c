// The primary's main thread: moves messages between the socket, the core that decides, and the other threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <zmq.hpp>

#include "common/log.h"
#include "common/metrics/metrics_endpoint.h"
#include "common/queue.h"
#include "common/signals.h"
#include "common/sockets.h"
#include "primary/certify/executor_pool.h"
#include "primary/core/core.h"
#include "primary/publish/catch_up_reader.h"
#include "primary/publish/housekeeper.h"
#include "primary/server_watch.h"
#include "primary/settings.h"
#include "primary/startup.h"

namespace psp::primary {

class Server {
 public:
  // How often the loop turns at least, for what is due by time.
  static constexpr int kTickMs = 100;

  // Binds the socket (throws zmq::error_t) and starts the threads.
  Server(const PrimarySettings& settings, PrimaryState state, StopSignals* signals, int tick_ms = kTickMs);

  enum class End {
    kStopped,   // by a signal
    kUsurped,   // another daemon has taken the database, or another server its place
    kHandsOver  // the server hands over to its standby
  };
  // Serves until then. After a signal, and where the server hands over, nothing new is certified; transactions in flight are decided
  // and answered.
  // `on_ready` is called when it can decide: docs/decisions/71.
  End Run(const std::function<void()>& on_ready = [] {});

  std::string endpoint() const { return router_.last_endpoint(); }

  // Before Run: where metrics are read, see metrics_listen. The error says what is wrong with the address.
  Result<Done, std::string> ServeMetrics() { return metrics_.Listen(settings_.metrics_listen); }

 private:
  // Another daemon or another server owns what this one has served: Run ends. Any thread.
  void OnUsurped();
  // One turn of the poll loop.
  void Turn();
  // True: all that has arrived.
  bool TakeMessages();
  void TakeBatchResults();
  void TakeCatchUpChunks();
  void TakeHouseReports();
  void DispatchBatches();
  void LookAtServer(std::int64_t now_us);
  // Carries out what the core wants done.
  void CarryOutActions();
  std::string Metrics(std::int64_t now_us) const;
  int WaitMs() const;
  void SayAway();
  void Stop(const char* why, std::int64_t now_us);
  bool MayStop(std::int64_t now_us) const;

  const PrimarySettings settings_;
  const std::int64_t since_us_;
  StopSignals* const signals_;
  const int tick_ms_;
  LogOnce logged_;

  // The main thread's.
  Core core_;
  std::int64_t away_ms_ = settings_.away_ms;  // 0: semi-primaries are not told that this one ends
  bool is_told_to_stop_ = false;
  std::int64_t stop_by_us_ = 0;  // 0: not stopping
  std::int64_t look_us_ = 0;
  // When those that wait for others need not wait any more. Nothing: nobody does, or no executor is free.
  std::optional<std::int64_t> dispatch_us_;

  MetricsEndpoint metrics_;
  zmq::context_t context_;
  RouterSocket router_;

  // Set by other threads.
  std::atomic<bool> usurped_ = false;
  WakeUp usurped_wake_up_;

  // The threads; destroyed first.
  ExecutorPool executors_;
  CatchUpReader catch_up_reader_;
  Housekeeper housekeeper_;
  ServerWatch watch_;
};

}  // namespace psp::primary
