#include "common/log.h"

#include <fmt/chrono.h>
#include <spdlog/formatter.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <chrono>
#include <ctime>
#include <memory>
#include <utility>

#include "common/clock.h"
#include "common/log_line.h"

namespace psp {
namespace {

// The event that this thread is writing. The sink formats in the thread that logs. (spdlog's own way to hand fields to a
// formatter came with 1.14, and Debian 12 has 1.10.)
thread_local const Note* written_event = nullptr;

class ThisEvent {
 public:
  explicit ThisEvent(const Note* event) { written_event = event; }
  ~ThisEvent() { written_event = nullptr; }
  ThisEvent(const ThisEvent&) = delete;
  ThisEvent& operator=(const ThisEvent&) = delete;
};

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

// Of all daemons alike, whose servers may be in different zones.
std::string UtcTime(std::chrono::system_clock::time_point time) {
  using std::chrono::duration_cast, std::chrono::microseconds, std::chrono::seconds;
  const auto us = duration_cast<microseconds>(time.time_since_epoch()) % seconds(1);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:06}Z", fmt::gmtime(std::chrono::system_clock::to_time_t(time)),
                     us.count());
}

// The server's own time of day, as PostgreSQL beside it writes it, with the distance to UTC.
std::string LocalTime(std::chrono::system_clock::time_point time) {
  using std::chrono::duration_cast, std::chrono::microseconds, std::chrono::seconds;
  const auto us = duration_cast<microseconds>(time.time_since_epoch()) % seconds(1);
  const std::tm local = fmt::localtime(std::chrono::system_clock::to_time_t(time));
  return fmt::format("{:%Y-%m-%d %H:%M:%S}.{:06}{:%z}", local, us.count(), local);
}

std::string_view View(spdlog::string_view_t text) { return {text.data(), text.size()}; }

class LineFormatter : public spdlog::formatter {
 public:
  explicit LineFormatter(bool is_json) : is_json_(is_json) {}

  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) override {
    const std::string_view level = View(spdlog::level::to_string_view(message.level));
    const std::string_view daemon = View(message.logger_name);
    const bool is_event_only = written_event != nullptr && written_event->text.empty();
    std::string line;
    if (is_json_) {
      line = JsonLine({.time = UtcTime(message.time),
                       .daemon = daemon,
                       .level = level,
                       .message = is_event_only ? std::string_view() : View(message.payload),
                       .event = written_event});
    } else {
      line = fmt::format("{} {} {}: {}", LocalTime(message.time), daemon, level,
                         InOneLine(View(message.payload)));
    }
    line += '\n';
    out.append(line.data(), line.data() + line.size());
  }
  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<LineFormatter>(is_json_);
  }

 private:
  const bool is_json_;
};

}  // namespace

void SetUpLog(std::string_view program, std::string_view level, std::string_view format) {
  auto logger = std::make_shared<spdlog::logger>(std::string(program),
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_formatter(std::make_unique<LineFormatter>(format == "json"));
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

void Log(const Note& note) {
  const auto level = LevelOf(note.level);
  if (!spdlog::should_log(level)) return;
  const ThisEvent event(note.event.empty() ? nullptr : &note);
  const std::int64_t ago_us = note.at_us == 0 ? 0 : MonotonicUs() - note.at_us;
  spdlog::default_logger_raw()->log(std::chrono::system_clock::now() - std::chrono::microseconds(ago_us),
                                    spdlog::source_loc{}, level,
                                    note.text.empty() ? EventText(note.event, note.fields) : note.text);
}

void Log(const Note& note, LogOnce* said) {
  if (!note.once || said->First(note.text)) Log(note);
}

}  // namespace psp
