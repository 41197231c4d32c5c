// psp-primary: takes the database over, serves.
#include <cerrno>
#include <cstdlib>
#include <iostream>
#include <optional>

#include "common/daemon.h"
#include "primary/server.h"
#include "primary/settings.h"
#include "primary/startup.h"

namespace {

// The exit code; nothing: its server hands over to its standby, and the next start waits for what becomes of that.
std::optional<int> ServeOnce(const psp::primary::PrimarySettings& settings, psp::StopSignals& signals) {
  psp::StartAttempts attempts(signals);
  auto state =
      attempts.Run([&] { return psp::primary::TakeOver(settings.database, settings.some_standbys); });
  if (!state) return attempts.exit_code();
  const psp::Epoch epoch = state->epoch;
  const psp::GlobalT closed_t = state->closed_t;
  std::unique_ptr<psp::primary::Server> server;
  try {
    server = std::make_unique<psp::primary::Server>(settings, std::move(*state), &signals);
  } catch (const zmq::error_t& problem) {
    const char* hint =
        problem.num() == ENODEV ? " (an address of this machine is needed, not a name; or *)" : "";
    return psp::BadConfiguration("listen: cannot bind " + settings.listen + ": " + problem.what() + hint);
  }
  if (const auto served = server->ServeMetrics(); !served.ok())
    return psp::BadConfiguration("metrics_listen: " + served.error());
  if (!settings.key && !psp::IsLocal(settings.listen)) {
    spdlog::warn(
        "everybody who reaches {} can read and write everything: set key_file (psp primary key makes one), "
        "unless the network is private",
        settings.listen);
  }
  spdlog::info("epoch {} begins at {}, listening on {}", epoch, closed_t, server->endpoint());
  using End = psp::primary::Server::End;
  const End end = server->Run([] { std::cout << "ready" << std::endl; });
  if (end == End::kHandsOver) {
    spdlog::info("nothing is decided any more on this server, which hands over to its standby");
    return std::nullopt;
  }
  if (end == End::kStopped) {
    spdlog::info("stopped");
    return EXIT_SUCCESS;
  }
  spdlog::error(
      "the database is no longer this daemon's: another psp-primary has taken it over, it is a standby's, or "
      "another server has taken its "
      "place. That one may lack transactions; a new start goes on from what it has");
  return EXIT_FAILURE;
}

int Serve(const psp::primary::PrimarySettings& settings, psp::StopSignals& signals) {
  std::optional<int> exit_code;
  while (!exit_code) exit_code = ServeOnce(settings, signals);
  return *exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  psp::primary::PrimarySettings values;
  return psp::RunDaemon(psp::primary::DeclarePrimarySettings(&values), argc, argv,
                        [&](psp::StopSignals& signals) { return Serve(values, signals); });
}
