// psp-mrv: starts the workers' threads, and waits for the signal to stop.
#include <poll.h>

#include <array>
#include <cstdint>
#include <deque>
#include <iostream>
#include <thread>
#include <vector>

#include "common/clock.h"
#include "common/daemon.h"
#include "common/metrics/metrics_endpoint.h"
#include "mrv/adjust_worker.h"
#include "mrv/balance_worker.h"
#include "mrv/metrics.h"
#include "mrv/settings.h"
#include "mrv/status_worker.h"

namespace {

using psp::mrv::AdjustWorker;
using psp::mrv::BalanceWorker;

constexpr int kTickMs = 200;

// Until the signal comes, metrics are answered.
void WaitForSignal(const psp::StopSignals& stop, const psp::mrv::WindowBoard& board,
                   psp::MetricsEndpoint* metrics) {
  const std::int64_t since_us = psp::MonotonicUs();
  std::array<pollfd, 2> sources = {pollfd{.fd = stop.fd(), .events = POLLIN, .revents = 0},
                                   pollfd{.fd = metrics->fd(), .events = POLLIN, .revents = 0}};
  while (!stop.TakeSignal()) {
    poll(sources.data(), sources.size(), metrics->fd() < 0 ? -1 : kTickMs);
    const std::int64_t now_us = psp::MonotonicUs();
    metrics->Serve(sources[1].revents != 0, now_us,
                   {.metrics =
                        [&] {
                          const auto numbers = psp::ReadDaemonNumbers(since_us, now_us);
                          return psp::mrv::MrvMetrics(numbers, board.IsServed());
                        },
                    .health = [&] { return psp::mrv::MrvIllness(board.IsServed()); }});
  }
}

void SayReady() {
  static bool said = false;  // only the status worker's thread comes here
  if (!said) std::cout << "ready" << std::endl;
  said = true;
}

int Serve(const psp::mrv::MrvSettings& settings, const psp::StopSignals& stop) {
  psp::MetricsEndpoint metrics;
  if (const auto served = metrics.Listen(settings.metrics_listen); !served.ok())
    return psp::BadConfiguration("metrics_listen: " + served.error());
  psp::mrv::WindowBoard board;
  psp::mrv::StatusWorker status(settings, &board, SayReady);
  std::deque<AdjustWorker> adjusters;
  std::deque<BalanceWorker> balancers;
  for (int i = 0; i < settings.adjust_runners; ++i) adjusters.emplace_back(settings, &board, i);
  for (int i = 0; i < settings.balance_runners; ++i) balancers.emplace_back(settings, &board, i);

  // Last, so that they are joined before what they use is gone. All are asked to stop before the first is
  // waited for.
  std::vector<std::jthread> threads;
  const auto start = [&](auto& worker) {
    threads.emplace_back([&worker](std::stop_token stopping) { worker.Run(stopping); });
  };
  start(status);
  for (AdjustWorker& worker : adjusters) start(worker);
  for (BalanceWorker& worker : balancers) start(worker);
  WaitForSignal(stop, board, &metrics);
  for (std::jthread& thread : threads) thread.request_stop();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  psp::mrv::MrvSettings values;
  return psp::RunDaemon(psp::mrv::DeclareMrvSettings(&values), argc, argv,
                        [&](const psp::StopSignals& stop) { return Serve(values, stop); });
}
