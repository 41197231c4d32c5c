// What main() of every daemon does around its work: settings, log, signals, exit codes.
#pragma once

#include <functional>
#include <string>

#include "common/config.h"
#include "common/signals.h"

namespace psp {

// For the work that RunDaemon runs: logs what is wrong with the configuration or the database, and returns
// the exit code that says so, 2.
int BadConfiguration(const std::string& what);

// Adds log_level and log_format to the declared settings, loads them, and runs the work; returns the exit code for main():
// the work's own, 0 after --help and the like, 2 when the settings are wrong, 1 after an exception, which is
// logged. To be called before there is any thread.
int RunDaemon(Settings settings, int argc, const char* const* argv,
              const std::function<int(StopSignals&)>& work);

}  // namespace psp
