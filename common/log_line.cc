#include "common/log_line.h"

#include <algorithm>
#include <cstddef>

namespace psp {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

bool IsControl(char c) { return (c >= '\0' && c < ' ') || c == '\x7f'; }

bool IsPlain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("-_.:+").find(c) != std::string_view::npos;
}

// The bytes of the character that `text` begins with; 0: none that UTF-8 knows (RFC 3629).
std::size_t CharacterBytes(std::string_view text) {
  const auto byte = [text](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const auto continues = [byte](std::size_t i) { return (byte(i) & 0xC0U) == 0x80U; };
  const unsigned first = byte(0);
  if (first < 0x80U) return 1;
  if (first >= 0xC2U && first < 0xE0U) return continues(1) ? 2 : 0;
  if (first >= 0xE0U && first < 0xF0U) {
    const bool is_too_long = first == 0xE0U && byte(1) < 0xA0U;
    const bool is_surrogate = first == 0xEDU && byte(1) >= 0xA0U;
    return continues(1) && continues(2) && !is_too_long && !is_surrogate ? 3 : 0;
  }
  if (first >= 0xF0U && first < 0xF5U) {
    const bool is_too_long = first == 0xF0U && byte(1) < 0x90U;
    const bool is_too_high = first == 0xF4U && byte(1) >= 0x90U;
    return continues(1) && continues(2) && continues(3) && !is_too_long && !is_too_high ? 4 : 0;
  }
  return 0;
}

void AppendEscaped(char c, std::string* out) {
  constexpr char kDigits[] = "0123456789abcdef";
  if (c == '"' || c == '\\') {
    *out += {'\\', c};
  } else if (c == '\n') {
    *out += "\\n";
  } else if (IsControl(c)) {
    const auto byte = static_cast<unsigned char>(c);
    *out += {'\\', 'u', '0', '0', kDigits[byte >> 4U], kDigits[byte & 0xFU]};
  } else {
    out->push_back(c);
  }
}

void AppendMember(std::string_view name, std::string_view value, bool is_number, std::string* out) {
  if (out->size() > 1) out->push_back(',');
  AppendJsonString(name, out);
  out->push_back(':');
  if (is_number) {
    *out += value;
  } else {
    AppendJsonString(value, out);
  }
}

}  // namespace

void AppendJsonString(std::string_view text, std::string* out) {
  out->push_back('"');
  while (!text.empty()) {
    const std::size_t bytes = CharacterBytes(text);
    if (bytes == 1) {
      AppendEscaped(text.front(), out);
    } else {
      *out += bytes == 0 ? kReplacement : text.substr(0, bytes);
    }
    text.remove_prefix(std::max<std::size_t>(bytes, 1));
  }
  out->push_back('"');
}

std::string EventText(std::string_view event, const std::vector<LogField>& fields) {
  std::string text(event);
  for (const LogField& field : fields) {
    text += ' ';
    text += field.name;
    text += '=';
    if (!field.value.empty() && std::ranges::all_of(field.value, IsPlain)) {
      text += field.value;
    } else {
      AppendJsonString(field.value, &text);
    }
  }
  return text;
}

std::string InOneLine(std::string_view text) {
  std::string line(text);
  std::ranges::replace_if(line, IsControl, ' ');
  return line;
}

std::string JsonLine(const LogLine& line) {
  std::string json = "{";
  AppendMember("time", line.time, false, &json);
  AppendMember("daemon", line.daemon, false, &json);
  AppendMember("level", line.level, false, &json);
  if (line.event != nullptr) {
    AppendMember("event", line.event->event, false, &json);
    for (const LogField& field : line.event->fields)
      AppendMember(field.name, field.value, field.is_number, &json);
  }
  if (!line.message.empty()) AppendMember("message", line.message, false, &json);
  return json + "}";
}

}  // namespace psp
