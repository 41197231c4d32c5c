#include "common/sockets.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/psp.pb.h"

namespace psp {
namespace {

bool Wait(zmq::pollitem_t item) { return zmq::poll(&item, 1, std::chrono::milliseconds(5000)) == 1; }

class SocketsTest : public testing::Test {
 protected:
  zmq::context_t context_;
  RouterSocket router_{context_, "tcp://127.0.0.1:*", {}};
  // A raw socket, to be able to send nonsense.
  zmq::socket_t raw_{context_, zmq::socket_type::dealer};
};

TEST_F(SocketsTest, MessagesGoBothWays) {
  DealerSocket dealer(context_, router_.last_endpoint(), {});
  proto::ToPrimary request;
  request.mutable_heartbeat()->set_sent_us(42);
  zmq::pollitem_t writable = dealer.poll_item();
  writable.events = ZMQ_POLLOUT;
  ASSERT_TRUE(Wait(writable));
  ASSERT_EQ(dealer.Send(request), SendOutcome::kSent);
  ASSERT_TRUE(Wait(router_.poll_item()));
  std::string route;
  proto::ToPrimary received;
  ASSERT_TRUE(router_.Receive(&route, &received));
  EXPECT_EQ(received.heartbeat().sent_us(), 42);
  EXPECT_FALSE(router_.Receive(&route, &received));

  proto::ToSemiPrimary reply;
  reply.set_epoch(7);
  ASSERT_EQ(router_.Send(route, reply), SendOutcome::kSent);
  ASSERT_TRUE(Wait(dealer.poll_item()));
  ASSERT_TRUE(dealer.Receive(&reply));
  EXPECT_EQ(reply.epoch(), 7);
}

// A connection is there as soon as one may write; with a key that is after the handshake.
bool Connects(DealerSocket* dealer, int timeout_ms) {
  zmq::pollitem_t writable = dealer->poll_item();
  writable.events = ZMQ_POLLOUT;
  return zmq::poll(&writable, 1, std::chrono::milliseconds(timeout_ms)) == 1;
}

// A listener whose queue is full: the kernel drops further SYNs, as a cut line does.
class BlackHole {
 public:
  BlackHole() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* const any = reinterpret_cast<sockaddr*>(&address);  // NOLINT: how sockets are used
    EXPECT_EQ(bind(listener_, any, size), 0);
    EXPECT_EQ(listen(listener_, 0), 0);
    EXPECT_EQ(getsockname(listener_, any, &size), 0);
    EXPECT_EQ(connect(filler_, any, size), 0);
    port_ = ntohs(address.sin_port);
  }
  ~BlackHole() {
    close(filler_);
    close(listener_);
  }
  std::string endpoint() const { return "tcp://127.0.0.1:" + std::to_string(port_); }

 private:
  const int listener_ = socket(AF_INET, SOCK_STREAM, 0);
  const int filler_ = socket(AF_INET, SOCK_STREAM, 0);
  int port_ = 0;
};

// The kernel itself would try with growing pauses for two minutes, and not notice that the line is back.
TEST_F(SocketsTest, AConnectionThatNobodyAnswersIsTriedAnew) {
  constexpr int kPatienceMs = 20'000;
  const BlackHole nobody;
  DealerSocket dealer(context_, nobody.endpoint(), {});
  ASSERT_EQ(zmq_socket_monitor(dealer.poll_item().socket, "inproc://events", ZMQ_EVENT_CONNECT_RETRIED), 0);
  zmq::socket_t events(context_, zmq::socket_type::pair);
  events.connect("inproc://events");
  zmq::pollitem_t event{events.handle(), 0, ZMQ_POLLIN, 0};
  EXPECT_EQ(zmq::poll(&event, 1, std::chrono::milliseconds(kPatienceMs)), 1);
}

TEST_F(SocketsTest, OnlyWhoHasTheKeyIsHeard) {
  constexpr int kLongEnoughMs = 300;
  const auto key = [](char digit) {
    std::string secret(40, digit);
    std::string public_key(41, '\0');
    EXPECT_EQ(zmq_curve_public(public_key.data(), secret.data()), 0);
    return SocketOptions{.key = ClusterKey{secret, public_key.substr(0, 40)}};
  };
  RouterSocket locked(context_, "tcp://127.0.0.1:*", key('1'));
  DealerSocket with_key(context_, locked.last_endpoint(), key('1'));
  ASSERT_TRUE(Connects(&with_key, 5000));
  proto::ToPrimary message;
  message.set_epoch(7);
  ASSERT_EQ(with_key.Send(message), SendOutcome::kSent);
  ASSERT_TRUE(Wait(locked.poll_item()));
  std::string route;
  ASSERT_TRUE(locked.Receive(&route, &message));

  DealerSocket without(context_, locked.last_endpoint(), {});
  DealerSocket with_another(context_, locked.last_endpoint(), key('2'));
  DealerSocket with_one_to_an_open_end(context_, router_.last_endpoint(), key('1'));
  for (DealerSocket* stranger : {&without, &with_another, &with_one_to_an_open_end}) {
    EXPECT_FALSE(Connects(stranger, kLongEnoughMs));
    stranger->Send(message);
  }
  EXPECT_FALSE(locked.Receive(&route, &message));
  EXPECT_FALSE(router_.Receive(&route, &message));
}

TEST_F(SocketsTest, MalformedMessagesAreCountedAndDropped) {
  raw_.connect(router_.last_endpoint());
  raw_.send(zmq::str_buffer("\xff\xff\xff nonsense"), zmq::send_flags::none);
  raw_.send(zmq::str_buffer("two"), zmq::send_flags::sndmore);
  raw_.send(zmq::str_buffer("frames"), zmq::send_flags::none);
  proto::ToPrimary good;
  good.set_epoch(3);
  const std::string bytes = good.SerializeAsString();
  raw_.send(zmq::buffer(bytes), zmq::send_flags::none);
  std::string route;
  proto::ToPrimary received;
  bool got = false;
  while (!got) {
    ASSERT_TRUE(Wait(router_.poll_item()));
    got = router_.Receive(&route, &received);
  }
  EXPECT_EQ(received.epoch(), 3);
  EXPECT_EQ(router_.malformed_total(), 2U);
}

TEST_F(SocketsTest, ReqSocketsGetTheirEmptyFrameBack) {
  RouterSocket router(context_, "tcp://127.0.0.1:*", {.req_peers = true});
  zmq::socket_t req(context_, zmq::socket_type::req);
  zmq::socket_t dealer(context_, zmq::socket_type::dealer);
  for (zmq::socket_t* peer : {&req, &dealer}) {
    peer->set(zmq::sockopt::linger, 0);
    peer->connect(router.last_endpoint());
    proto::ToPrimary question;
    question.set_epoch(7);
    peer->send(zmq::buffer(question.SerializeAsString()), zmq::send_flags::none);
    std::string route;
    proto::ToPrimary heard;
    while (!router.Receive(&route, &heard)) router.Wait(std::array<int, 1>{-1}, 1000);
    ASSERT_EQ(router.Send(route, heard), SendOutcome::kSent);
    zmq::message_t reply;
    ASSERT_TRUE(peer->recv(reply));
    EXPECT_FALSE(reply.more());
    EXPECT_EQ(reply.to_string(), question.SerializeAsString());
  }
}

TEST_F(SocketsTest, WhoSendsFasterThanHeIsReadHasToWait) {
  constexpr int kBytes = 10'000;
  constexpr int kFarTooMany = 20'000;
  RouterSocket router(context_, "tcp://127.0.0.1:*", {.receive_queue_max = 10});
  raw_.set(zmq::sockopt::linger, 0);
  raw_.set(zmq::sockopt::sndhwm, 10);
  raw_.set(zmq::sockopt::sndtimeo, 200);
  raw_.connect(router.last_endpoint());
  int sent = 0;
  while (sent < kFarTooMany && raw_.send(zmq::message_t(kBytes), zmq::send_flags::none)) ++sent;
  EXPECT_LT(sent, kFarTooMany) << "what does not fit in the queues and the sockets' buffers";
}

TEST_F(SocketsTest, UnknownRouteIsUnreachable) {
  EXPECT_EQ(router_.SendBytes("nobody", "x"), SendOutcome::kUnreachable);
}

TEST(EndpointTest, IsCheckedBeforeItIsUsed) {
  for (const char* good : {"tcp://127.0.0.1:1", "tcp://primary.example:65535", "tcp://[::1]:5610"}) {
    EXPECT_EQ(CheckEndpoint(good), "") << good;
  }
  for (const char* bad :
       {"", "127.0.0.1:5610", "tcp://", "tcp://host", "tcp://:5610", "tcp://host:", "tcp://host:0",
        "tcp://host:65536", "tcp://host:*", "tcp://host:x", "ipc:///tmp/x"}) {
    EXPECT_NE(CheckEndpoint(bad), "") << bad;
  }
}

TEST_F(SocketsTest, DealerWithoutConnectionDrops) {
  DealerSocket dealer(context_, "tcp://127.0.0.1:1", {});
  EXPECT_EQ(dealer.SendBytes("x"), SendOutcome::kUnreachable);
}

}  // namespace
}  // namespace psp
