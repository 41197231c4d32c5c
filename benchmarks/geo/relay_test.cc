#include "benchmarks/geo/relay.h"

#include <gtest/gtest.h>

#include <numeric>
#include <optional>
#include <string>
#include <thread>

namespace psp::geo {
namespace {

using asio::ip::tcp;
using std::chrono::milliseconds;

constexpr milliseconds kOneWay{20};

// A relay in a thread of its own, in front of a listener that the test accepts from.
class RelayTest : public testing::Test {
 protected:
  RelayTest() : target_(test_io_, tcp::endpoint(asio::ip::address_v4::loopback(), 0)) {}

  ~RelayTest() override {
    relay_io_.stop();
    if (thread_.joinable()) thread_.join();
  }

  void StartRelay(size_t in_flight_bytes_max = 16U << 20U) {
    RelayOptions options;
    options.listen_host = "127.0.0.1";
    options.listen_port = "0";
    options.target_host = "127.0.0.1";
    options.target_port = std::to_string(target_.local_endpoint().port());
    options.one_way = kOneWay;
    options.in_flight_bytes_max = in_flight_bytes_max;
    relay_.emplace(relay_io_, options);
    thread_ = std::thread([this] { relay_io_.run(); });
  }

  tcp::socket Connect() {
    tcp::socket socket(test_io_);
    socket.connect(tcp::endpoint(asio::ip::address_v4::loopback(), relay_->port()));
    return socket;
  }

  static std::string ReadExactly(tcp::socket& socket, size_t bytes) {
    std::string data(bytes, '\0');
    asio::read(socket, asio::buffer(data));
    return data;
  }

  asio::io_context test_io_;
  tcp::acceptor target_;
  asio::io_context relay_io_;
  std::optional<Relay> relay_;
  std::thread thread_;
};

TEST_F(RelayTest, RoundTripTakesAtLeastBothWays) {
  StartRelay();
  tcp::socket client = Connect();
  tcp::socket server = target_.accept();
  for (int i = 0; i < 5; ++i) {
    const Time start = Clock::now();
    asio::write(client, asio::buffer("ping", 4));
    EXPECT_EQ(ReadExactly(server, 4), "ping");
    EXPECT_GE(Clock::now() - start, kOneWay);
    asio::write(server, asio::buffer("pong", 4));
    EXPECT_EQ(ReadExactly(client, 4), "pong");
    EXPECT_GE(Clock::now() - start, 2 * kOneWay);
  }
}

TEST_F(RelayTest, KeepsEveryByteInOrderWithBoundedMemory) {
  StartRelay(1U << 16U);
  tcp::socket client = Connect();
  tcp::socket server = target_.accept();
  std::string sent(1U << 20U, '\0');
  std::iota(sent.begin(), sent.end(), '\0');
  std::thread writer([&] { asio::write(client, asio::buffer(sent)); });
  const std::string received = ReadExactly(server, sent.size());
  writer.join();
  EXPECT_TRUE(received == sent);
}

TEST_F(RelayTest, HalfCloseLeavesTheOtherDirectionOpen) {
  StartRelay();
  tcp::socket client = Connect();
  tcp::socket server = target_.accept();
  asio::write(client, asio::buffer("question", 8));
  client.shutdown(tcp::socket::shutdown_send);
  EXPECT_EQ(ReadExactly(server, 8), "question");
  std::error_code error;
  char byte = 0;
  EXPECT_EQ(server.read_some(asio::buffer(&byte, 1), error), 0U);
  EXPECT_EQ(error, asio::error::eof);
  asio::write(server, asio::buffer("answer", 6));
  EXPECT_EQ(ReadExactly(client, 6), "answer");
  server.close();
  client.read_some(asio::buffer(&byte, 1), error);
  EXPECT_EQ(error, asio::error::eof);
}

TEST_F(RelayTest, ResetArrivesAsReset) {
  StartRelay();
  tcp::socket client = Connect();
  tcp::socket server = target_.accept();
  asio::write(client, asio::buffer("x", 1));
  EXPECT_EQ(ReadExactly(server, 1), "x");
  server.set_option(asio::socket_base::linger(true, 0));
  server.close();
  std::error_code error;
  char byte = 0;
  client.read_some(asio::buffer(&byte, 1), error);
  EXPECT_EQ(error, asio::error::connection_reset);
}

TEST_F(RelayTest, TargetMayComeLater) {
  const tcp::endpoint place = target_.local_endpoint();
  StartRelay();
  target_.close();
  std::error_code error;
  char byte = 0;
  tcp::socket early = Connect();
  early.read_some(asio::buffer(&byte, 1), error);
  EXPECT_TRUE(error) << "the connection must be closed while nobody listens";

  tcp::acceptor later(test_io_, place);
  tcp::socket client = Connect();
  tcp::socket server = later.accept();
  asio::write(client, asio::buffer("x", 1));
  EXPECT_EQ(ReadExactly(server, 1), "x");
}

}  // namespace
}  // namespace psp::geo
