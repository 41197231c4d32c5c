#include "common/daemon.h"

#include <cstdlib>
#include <exception>
#include <iostream>
#include <iterator>

#include "common/log.h"

namespace psp {
namespace {

constexpr int kFailed = 1;
constexpr int kBadConfiguration = 2;
constexpr const char* kConnectTimeoutS = "10";

}  // namespace

int BadConfiguration(const std::string& what) {
  spdlog::error("{}", what);
  return kBadConfiguration;
}

int RunDaemon(Settings settings, int argc, const char* const* argv,
              const std::function<int(StopSignals&)>& work) {
  std::string log_level;
  std::string log_format;
  settings.Text({.name = "log_level",
                 .description = "how much is logged to stderr",
                 .default_value = "info",
                 .allowed = {std::begin(kLogLevels), std::end(kLogLevels)}},
                &log_level);
  settings.Text({.name = "log_format",
                 .description = "how: text, for people; json: one object a line, for programs",
                 .default_value = "text",
                 .allowed = {std::begin(kLogFormats), std::end(kLogFormats)}},
                &log_format);
  switch (settings.Load(argc, argv, std::cout, std::cerr)) {
    case Settings::Outcome::kExitSuccess:
      return 0;
    case Settings::Outcome::kExitBadConfiguration:
      return kBadConfiguration;
    case Settings::Outcome::kRun:
      break;
  }
  SetUpLog(settings.program(), log_level, log_format);
  // A server that does not answer must not hold up the end of the daemon. What the user has set comes first.
  ::setenv("PGCONNECT_TIMEOUT", kConnectTimeoutS, 0);
  try {
    StopSignals stop;
    return work(stop);
  } catch (const std::exception& problem) {
    spdlog::critical("{}", problem.what());
    return kFailed;
  }
}

}  // namespace psp
