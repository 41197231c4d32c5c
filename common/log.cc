#include "common/log.h"

#include <spdlog/sinks/stdout_sinks.h>

#include <memory>

namespace psp {
namespace {

spdlog::level::level_enum LevelOf(Note::Level level) {
  switch (level) {
    case Note::Level::kInfo:
      return spdlog::level::info;
    case Note::Level::kWarning:
      return spdlog::level::warn;
    case Note::Level::kError:
      return spdlog::level::err;
    case Note::Level::kCritical:
      break;
  }
  return spdlog::level::critical;
}

}  // namespace

void SetUpLog(std::string_view program, std::string_view level) {
  auto logger = std::make_shared<spdlog::logger>(std::string(program),
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern("%Y-%m-%d %H:%M:%S.%e %n %l: %v");
  logger->set_level(spdlog::level::from_str(std::string(level)));
  logger->flush_on(spdlog::level::trace);
  spdlog::set_default_logger(std::move(logger));
}

bool LogOnce::First(std::string_view name) {
  const std::lock_guard lock(mutex_);
  if (said_.size() >= names_max_) return false;
  return said_.emplace(name).second;
}

void LogOnce::Forget(std::string_view name) {
  const std::lock_guard lock(mutex_);
  said_.erase(std::string(name));
}

void Log(const Note& note, LogOnce* said) {
  if (!note.once || said->First(note.text)) spdlog::log(LevelOf(note.level), "{}", note.text);
}

}  // namespace psp
