// Logging to stderr, one line for each event. spdlog's functions (spdlog::info("…{}", x)) work in any thread; Log writes
// a line that has a name and fields, too.
//
// Text: "TIME DAEMON LEVEL: message". An event without a message is shown as "name field=value …".
// JSON: one object a line with time, daemon, level, event, the event's fields, and message, as far as they exist.
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
inline constexpr const char* kLogFormats[] = {"text", "json"};

void SetUpLog(std::string_view program, std::string_view level, std::string_view format = "text");

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

// Any thread.
void Log(const Note& note);
// The same, unless the note must be logged once only and was logged already.
void Log(const Note& note, LogOnce* said);

}  // namespace psp
