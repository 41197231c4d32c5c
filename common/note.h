// A line for the log, from code that does not log itself because it is pure. common/log.h writes it.
#pragma once

#include <string>

namespace psp {

struct Note {
  enum class Level { kInfo, kWarning, kError, kCritical };
  Level level = Level::kInfo;
  std::string text;
  bool once = false;  // log the same text once: input from outside could fill the disk
};

}  // namespace psp
