// A line for the log, from code that does not log itself because it is pure. common/log.h writes it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace psp {

// What a program reads of a line. A name is short and of the form a_b; the value is any text.
struct LogField {
  std::string_view name;  // a literal
  std::string value;
  bool is_number = false;

  static LogField Text(std::string_view name, std::string value) { return {name, std::move(value)}; }
  static LogField Number(std::string_view name, std::int64_t value) {
    return {name, std::to_string(value), true};
  }
  // Microseconds as milliseconds with three decimals.
  static LogField Ms(std::string_view name, std::int64_t us) {
    const std::int64_t size_us = us < 0 ? -us : us;
    const std::string thousandths = std::to_string(1000 + size_us % 1000);
    return {name, (us < 0 ? "-" : "") + std::to_string(size_us / 1000) + "." + thousandths.substr(1), true};
  }
};

struct Note {
  enum class Level { kInfo, kWarning, kError, kCritical };
  Level level = Level::kInfo;
  std::string text{};        // for people; empty: the event's name and its fields are the line
  bool once = false;         // log the same text once: input from outside could fill the disk
  std::string_view event{};  // a literal; a name that stays the same. Empty: only people read the line
  std::vector<LogField> fields{};
  std::int64_t at_us = 0;  // monotonic; 0: now
};

}  // namespace psp
