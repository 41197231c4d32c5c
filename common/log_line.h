// How a line of the log is written: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/note.h"

namespace psp {

// Appends the text with quotes, as a JSON string. Bytes that are no UTF-8 become U+FFFD.
void AppendJsonString(std::string_view text, std::string* out);

// "name field=value …". A value with other characters than letters, digits and -_.:+ is written as a JSON string.
std::string EventText(std::string_view event, const std::vector<LogField>& fields);

// Somebody's text in one line: control characters become spaces.
std::string InOneLine(std::string_view text);

struct LogLine {
  std::string_view time;
  std::string_view daemon;
  std::string_view level;
  std::string_view message;     // empty: there is none
  const Note* event = nullptr;  // null: it is no event
};
// One JSON object, without a line break.
std::string JsonLine(const LogLine& line);

}  // namespace psp
