// psp-mrv: starts the workers' threads, and waits for the signal to stop.
#include <poll.h>

#include <deque>
#include <iostream>
#include <thread>
#include <vector>

#include "common/daemon.h"
#include "mrv/adjust_worker.h"
#include "mrv/balance_worker.h"
#include "mrv/settings.h"
#include "mrv/status_worker.h"

namespace {

using psp::mrv::AdjustWorker;
using psp::mrv::BalanceWorker;

void WaitForSignal(const psp::StopSignals& stop) {
  pollfd signal{.fd = stop.fd(), .events = POLLIN, .revents = 0};
  while (!stop.TakeSignal()) poll(&signal, 1, -1);
}

void SayReady() {
  static bool said = false;  // only the status worker's thread comes here
  if (!said) std::cout << "ready" << std::endl;
  said = true;
}

int Serve(const psp::mrv::MrvSettings& settings, const psp::StopSignals& stop) {
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
  WaitForSignal(stop);
  for (std::jthread& thread : threads) thread.request_stop();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  psp::mrv::MrvSettings values;
  return psp::RunDaemon(psp::mrv::DeclareMrvSettings(&values), argc, argv,
                        [&](const psp::StopSignals& stop) { return Serve(values, stop); });
}
