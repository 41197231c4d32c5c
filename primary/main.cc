// psp-primary: reads its settings, takes the database over, serves.
#include <cstdlib>
#include <iostream>
#include <stdexcept>

#include "common/log.h"
#include "common/signals.h"
#include "primary/server.h"
#include "primary/settings.h"
#include "primary/startup.h"

namespace {

constexpr int kBadConfiguration = 2;

int Serve(const psp::PrimarySettings& settings) {
  psp::SetUpLog("psp-primary", settings.log_level);
  psp::StopSignals signals;
  auto state = psp::TakeOver(settings.database);
  if (!state.ok()) {
    std::cerr << "database: " << state.error() << "\n";
    return kBadConfiguration;
  }
  const psp::Epoch epoch = state->epoch;
  const psp::GlobalT closed_t = state->closed_t;
  std::unique_ptr<psp::Server> server;
  try {
    server = std::make_unique<psp::Server>(settings, std::move(*state), &signals);
  } catch (const zmq::error_t& problem) {
    std::cerr << "listen: cannot bind " << settings.listen << ": " << problem.what() << "\n";
    return kBadConfiguration;
  }
  spdlog::info("epoch {} begins at {}, listening on {}", epoch, closed_t, server->endpoint());
  std::cout << "ready" << std::endl;
  if (server->Run()) {
    spdlog::info("stopped");
    return EXIT_SUCCESS;
  }
  spdlog::error("another psp-primary has taken the database over");
  return EXIT_FAILURE;
}

}  // namespace

int main(int argc, char** argv) {
  psp::PrimarySettings values;
  psp::Settings settings = psp::DeclarePrimarySettings(&values);
  switch (settings.Load(argc, argv, std::cout, std::cerr)) {
    case psp::Settings::Outcome::kExitSuccess:
      return EXIT_SUCCESS;
    case psp::Settings::Outcome::kExitBadConfiguration:
      return kBadConfiguration;
    case psp::Settings::Outcome::kRun:
      break;
  }
  try {
    return Serve(values);
  } catch (const std::exception& problem) {
    std::cerr << "psp-primary: " << problem.what() << "\n";
    return EXIT_FAILURE;
  }
}
