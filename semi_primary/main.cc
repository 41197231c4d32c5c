// psp-semi-primary: parses the settings, claims the database, and runs the server.
#include <iostream>

#include "common/log.h"
#include "common/signals.h"
#include "semi_primary/server.h"
#include "semi_primary/settings.h"

namespace {

constexpr int kBadConfiguration = 2;

int Fail(const std::string& what) {
  spdlog::error("{}", what);
  return kBadConfiguration;
}

int Serve(const psp::SemiPrimarySettings& settings, psp::StopSignals& stop) {
  const auto address = psp::ParseListenAddress(settings.hook_listen);
  if (!address) return Fail("hook_listen: " + address.error());
  psp::StatusWriter status(settings.database);
  const auto identity = status.Open(settings.name, address->Conninfo());
  if (!identity) return Fail("database: " + identity.error());
  psp::Server server(settings, *address, *identity, &status);
  const auto started = server.Start();
  if (!started) return Fail("hook_listen: " + started.error());
  std::cout << "ready" << std::endl;
  return server.Run(stop);
}

}  // namespace

int main(int argc, char** argv) {
  psp::SemiPrimarySettings settings;
  switch (psp::LoadSettings(argc, argv, &settings)) {
    case psp::Settings::Outcome::kExitSuccess:
      return 0;
    case psp::Settings::Outcome::kExitBadConfiguration:
      return kBadConfiguration;
    case psp::Settings::Outcome::kRun:
      break;
  }
  psp::SetUpLog("psp-semi-primary", settings.log_level);
  try {
    psp::StopSignals stop;
    return Serve(settings, stop);
  } catch (const std::exception& problem) {
    spdlog::critical("{}", problem.what());
    return 1;
  }
}
