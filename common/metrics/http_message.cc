#include "common/metrics/http_message.h"

#include <fmt/format.h>

#include <algorithm>

namespace psp {
namespace {

const char* ReasonOf(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 503:
      return "Service Unavailable";
    default:
      return "Bad Request";
  }
}

// In a head: visible characters of ASCII and spaces. A header's value may have others, which nobody here reads.
bool IsVisible(char c) { return c >= ' ' && c <= '~'; }

bool IsMethod(std::string_view text) {
  return !text.empty() && text.size() <= 16 &&
         std::ranges::all_of(text, [](char c) { return c >= 'A' && c <= 'Z'; });
}

std::variant<MoreIsNeeded, HttpRequest, HttpAnswer> ReadFirstLine(std::string_view line) {
  const std::size_t first = line.find(' ');
  const std::size_t last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) return BadRequest();
  const std::string_view method = line.substr(0, first);
  const std::string_view target = line.substr(first + 1, last - first - 1);
  const std::string_view version = line.substr(last + 1);
  const bool is_http = version == "HTTP/1.1" || version == "HTTP/1.0";
  if (!IsMethod(method) || !is_http || !target.starts_with('/')) return BadRequest();
  if (target.find(' ') != std::string_view::npos) return BadRequest();
  if (method != "GET") return HttpAnswer{405, "only GET\n"};
  return HttpRequest{std::string(target.substr(0, target.find('?')))};
}

bool HasEnded(std::string_view bytes) {
  return bytes.find("\r\n\r\n") != std::string_view::npos || bytes.find("\n\n") != std::string_view::npos;
}

}  // namespace

std::variant<MoreIsNeeded, HttpRequest, HttpAnswer> ReadHttpRequest(std::string_view bytes,
                                                                    std::size_t bytes_max) {
  const std::size_t end = bytes.find('\n');
  std::string_view line = bytes.substr(0, end);
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (!std::ranges::all_of(line, IsVisible)) return BadRequest();
  if (end == std::string_view::npos) {
    if (bytes.size() >= bytes_max) return BadRequest();
    return MoreIsNeeded{};
  }
  auto request = ReadFirstLine(line);
  if (!std::holds_alternative<HttpRequest>(request) || HasEnded(bytes)) return request;
  if (bytes.size() >= bytes_max) return BadRequest();
  return MoreIsNeeded{};
}

std::string HttpBytes(const HttpAnswer& answer) {
  return fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{}Connection: close\r\n\r\n{}",
      answer.status, ReasonOf(answer.status), answer.content_type, answer.body.size(),
      answer.status == 405 ? "Allow: GET\r\n" : "", answer.body);
}

}  // namespace psp
