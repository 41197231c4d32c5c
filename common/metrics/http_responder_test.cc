#include "common/metrics/http_responder.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>

namespace psp {
namespace {

constexpr HttpResponder::Limits kLimits{
    .connections_max = 2, .request_bytes_max = 200, .connection_us_max = 1000};

class HttpResponderTest : public testing::Test {
 protected:
  HttpResponderTest() {
    auto made = HttpResponder::Listen("127.0.0.1:0", kLimits);
    if (made.ok()) responder_ = std::move(made.value());
  }

  FileDescriptor Connect() const {
    FileDescriptor client(socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(responder_->port());
    inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
    EXPECT_EQ(connect(client.get(), reinterpret_cast<sockaddr*>(&to), sizeof to), 0);  // NOLINT
    return client;
  }

  static void Send(const FileDescriptor& client, std::string_view bytes) {
    EXPECT_EQ(send(client.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }

  // Until nothing is ready any more.
  void Serve() {
    pollfd ready{responder_->fd(), POLLIN, 0};
    while (poll(&ready, 1, 20) > 0) {
      responder_->Serve(now_us_, [this](const HttpRequest& request) {
        return HttpAnswer{200, request.path + std::string(body_bytes_, '.')};
      });
    }
  }

  // All that comes until the other end closes; the responder is served meanwhile.
  std::string Receive(const FileDescriptor& client) {
    std::string all;
    std::array<char, 4096> bytes{};
    for (int i = 0; i < 10'000; ++i) {
      const ssize_t read = recv(client.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (read == 0) return all;
      if (read > 0) all.append(bytes.data(), static_cast<std::size_t>(read));
      if (read < 0) Serve();
    }
    return all + " and it is not closed";
  }

  std::unique_ptr<HttpResponder> responder_;
  std::int64_t now_us_ = 0;
  std::size_t body_bytes_ = 0;
};

TEST_F(HttpResponderTest, AnswersAndCloses) {
  const FileDescriptor client = Connect();
  Send(client, "GET /a HTTP/1.1\r\n");
  Serve();
  Send(client, "\r\n");
  EXPECT_TRUE(Receive(client).ends_with("\r\n\r\n/a"));
}

TEST_F(HttpResponderTest, SendsALongAnswerInParts) {
  body_bytes_ = 8 << 20;  // more than a socket takes at once
  const FileDescriptor client = Connect();
  Send(client, "GET /a HTTP/1.1\r\n\r\n");
  EXPECT_GT(Receive(client).size(), body_bytes_);
}

TEST_F(HttpResponderTest, RefusesGarbageInWords) {
  const FileDescriptor client = Connect();
  Send(client, "\x16\x03\x01 and much more that nobody reads");
  Serve();
  Send(client, std::string(10'000, 'x'));
  EXPECT_TRUE(Receive(client).starts_with("HTTP/1.1 400 Bad Request\r\n"));
}

TEST_F(HttpResponderTest, EndsAConnectionWhoseTimeIsOver) {
  const FileDescriptor client = Connect();
  Send(client, "GET /a");
  Serve();
  EXPECT_EQ(responder_->connections(), 1U);
  now_us_ = kLimits.connection_us_max;
  responder_->Serve(now_us_, nullptr);
  EXPECT_EQ(responder_->connections(), 0U);
  EXPECT_EQ(Receive(client), "");
}

TEST_F(HttpResponderTest, OnesThatAskNothingKeepOutNobody) {
  const FileDescriptor first = Connect();
  const FileDescriptor second = Connect();
  Send(second, "GET /slow");
  Serve();
  const FileDescriptor third = Connect();
  Send(third, "GET /third HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(Receive(third).ends_with("\r\n\r\n/third"));
  EXPECT_EQ(responder_->connections(), 2U);
  EXPECT_EQ(Receive(first), "") << "the oldest has given way";
}

TEST_F(HttpResponderTest, FurtherConnectionsWaitWhileAllAreAnswered) {
  body_bytes_ = 8 << 20;  // more than a socket takes at once
  const FileDescriptor first = Connect();
  const FileDescriptor second = Connect();
  for (const FileDescriptor* one : {&first, &second}) Send(*one, "GET /a HTTP/1.1\r\n\r\n");
  Serve();
  const FileDescriptor third = Connect();
  Send(third, "GET /third HTTP/1.1\r\n\r\n");
  Serve();  // ends: the listener must not stay ready
  EXPECT_EQ(responder_->connections(), 2U);
  EXPECT_GT(Receive(first).size(), body_bytes_);
  EXPECT_GT(Receive(third).size(), body_bytes_);
}

TEST_F(HttpResponderTest, AClientThatLeavesIsForgotten) {
  { const FileDescriptor client = Connect(); }
  Serve();
  EXPECT_EQ(responder_->connections(), 0U);
}

TEST_F(HttpResponderTest, TellsThatTheAddressIsTaken) {
  const auto again = HttpResponder::Listen("127.0.0.1:" + std::to_string(responder_->port()), kLimits);
  ASSERT_FALSE(again.ok());
  EXPECT_NE(again.error().find("in use"), std::string::npos) << again.error();
}

TEST(CheckHttpAddress, TakesAddressesWithAPort) {
  for (const char* good : {"", "127.0.0.1:9610", "0.0.0.0:1", "[::1]:9610", "[::]:65535"}) {
    EXPECT_EQ(CheckHttpAddress(good), "") << good;
  }
  for (const char* bad :
       {"9610", ":9610", "localhost:9610", "127.0.0.1", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:65536",
        "127.0.0.1:-1", "::1:9610", "[::1]", "[127.0.0.1]:9610", "*:9610", "tcp://127.0.0.1:1"}) {
    EXPECT_NE(CheckHttpAddress(bad), "") << bad;
  }
}

}  // namespace
}  // namespace psp
