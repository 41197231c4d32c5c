// As much of HTTP/1.1 as a scrape and a health check need: one GET without a body, and the answer. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <variant>

namespace psp {

struct HttpRequest {
  std::string path;  // without the query
};

struct HttpAnswer {
  int status = 200;
  std::string body{};
  std::string_view content_type = "text/plain; charset=utf-8";
};

inline HttpAnswer BadRequest() { return {400, "bad request\n"}; }
inline HttpAnswer NotFound() { return {404, "not found\n"}; }

struct MoreIsNeeded {};

// What the bytes of a connection ask for so far: a request, or the answer to one that is refused. What is no request is refused as
// early as it is seen; `bytes_max`: a longer head is refused.
std::variant<MoreIsNeeded, HttpRequest, HttpAnswer> ReadHttpRequest(std::string_view bytes,
                                                                    std::size_t bytes_max);

// The bytes to send; after them the connection ends.
std::string HttpBytes(const HttpAnswer& answer);

}  // namespace psp
