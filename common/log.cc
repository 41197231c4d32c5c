#include "common/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <ctime>
#include <memory>
#include <utility>

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

// What is logged may be somebody's text: its line breaks and other control characters become spaces, so that a
// line is what a daemon has said.
class InOneLine : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm& /*time*/,
              spdlog::memory_buf_t& line) override {
    for (const char c : message.payload) {
      const bool is_control = (c >= '\0' && c < ' ') || c == '\x7f';
      line.push_back(is_control ? ' ' : c);
    }
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<InOneLine>(); }
};

}  // namespace

void SetUpLog(std::string_view program, std::string_view level) {
  auto logger = std::make_shared<spdlog::logger>(std::string(program),
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<InOneLine>('*').set_pattern("%Y-%m-%d %H:%M:%S.%e %n %l: %*");
  logger->set_formatter(std::move(formatter));
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
