// Logging to stderr, one line for each event. spdlog's functions (spdlog::info("…{}", x)) work in any thread.
#pragma once

#include <spdlog/spdlog.h>

#include <mutex>
#include <string>
#include <string_view>
#include <unordered_set>

#include "common/note.h"

namespace psp {

// The values that SetUpLog takes, for the configuration.
inline constexpr const char* kLogLevels[] = {"trace", "debug", "info", "warn", "error"};

void SetUpLog(std::string_view program, std::string_view level);

// Remembers what was logged, so that bad input is logged once and cannot fill the disk. Thread-safe. After
// `names_max` different names, each new one counts as logged.
class LogOnce {
 public:
  explicit LogOnce(std::size_t names_max = 1000) : names_max_(names_max) {}

  // True the first time for each name.
  bool First(std::string_view name);
  // The name may be logged again (its cause has gone).
  void Forget(std::string_view name);

 private:
  const std::size_t names_max_;
  std::mutex mutex_;
  std::unordered_set<std::string> said_;
};

// Writes the note, unless it must be logged once only and was logged already.
void Log(const Note& note, LogOnce* said);

}  // namespace psp
