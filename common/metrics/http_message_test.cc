#include "common/metrics/http_message.h"

#include <gtest/gtest.h>

namespace psp {
namespace {

constexpr std::size_t kBytesMax = 100;

// The path, "more", or the status of the refusal.
std::string Read(std::string_view bytes) {
  const auto asked = ReadHttpRequest(bytes, kBytesMax);
  if (const auto* request = std::get_if<HttpRequest>(&asked)) return request->path;
  if (const auto* answer = std::get_if<HttpAnswer>(&asked)) return std::to_string(answer->status);
  return "more";
}

TEST(ReadHttpRequest, TakesAGet) {
  EXPECT_EQ(Read("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"), "/metrics");
  EXPECT_EQ(Read("GET /metrics?name=x HTTP/1.0\r\n\r\n"), "/metrics");
  EXPECT_EQ(Read("GET /health HTTP/1.1\nHost: a\n\n"), "/health");
  EXPECT_EQ(Read("GET / HTTP/1.1\r\nX: \xc3\xa4\r\n\r\nmore"), "/");
}

TEST(ReadHttpRequest, WaitsForTheEndOfTheHead) {
  const std::string whole = "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n";
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_EQ(Read(std::string_view(whole).substr(0, size)), "more") << size;
  }
}

TEST(ReadHttpRequest, RefusesOtherMethods) {
  for (const char* method : {"POST", "HEAD", "OPTIONS", "PUT", "DELETE"}) {
    EXPECT_EQ(Read(std::string(method) + " /metrics HTTP/1.1\r\n\r\n"), "405") << method;
  }
}

TEST(ReadHttpRequest, RefusesWhatIsNoRequestAsSoonAsItIsSeen) {
  EXPECT_EQ(Read("\x16\x03\x01"), "400");  // TLS
  EXPECT_EQ(Read(std::string_view("\0", 1)), "400");
  for (const char* line :
       {"\n", "\r\n", "GET\n", "GET /metrics\n", "GET  HTTP/1.1\n", "GET metrics HTTP/1.1\n",
        "get /metrics HTTP/1.1\n", "GET /metrics HTTP/2\n", "GET /metrics HTTP/1.1 x\n",
        "GET /a b HTTP/1.1\n", "GET http://a/metrics HTTP/1.1\n", "GET /\x7f HTTP/1.1\n",
        "ABCDEFGHIJKLMNOPQ / HTTP/1.1\n"}) {
    EXPECT_EQ(Read(line), "400") << line;
  }
}

TEST(ReadHttpRequest, RefusesALongHead) {
  EXPECT_EQ(Read(std::string(kBytesMax - 1, 'A')), "more");
  EXPECT_EQ(Read(std::string(kBytesMax, 'A')), "400");
  const std::string line = "GET / HTTP/1.1\r\nX: ";
  EXPECT_EQ(Read(line + std::string(kBytesMax - line.size() - 1, 'x')), "more");
  EXPECT_EQ(Read(line + std::string(kBytesMax - line.size(), 'x')), "400");
}

TEST(HttpBytes, TellsTheLengthAndClosesTheConnection) {
  EXPECT_EQ(HttpBytes({503, "no\n"}),
            "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\n"
            "Content-Length: 3\r\nConnection: close\r\n\r\nno\n");
  EXPECT_NE(HttpBytes({405, ""}).find("Allow: GET\r\n"), std::string::npos);
}

}  // namespace
}  // namespace psp
