// SPDX-License-Identifier: PostgreSQL
// The commit requests at a semi-primary that this test plays.
#include "client_libs/cpp/requests.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <utility>

namespace psp_client {
namespace {

using psp::proto::ClientReply;
using psp::proto::ClientRequest;

constexpr char kTxId[] = "01234567-89ab-7def-8123-456789abcdef";
constexpr std::chrono::milliseconds kSoon{20};
constexpr std::chrono::milliseconds kLate{30000};

// The daemon's socket: a request comes with the route back to its client.
class FakeDaemon {
 public:
  FakeDaemon() {
    socket_.set(zmq::sockopt::linger, 0);
    socket_.set(zmq::sockopt::rcvtimeo, static_cast<int>(kLate.count()));
    socket_.bind("tcp://127.0.0.1:*");
  }

  std::string endpoint() const { return socket_.get(zmq::sockopt::last_endpoint); }

  // Waits for a request; its id and transaction are kept for Answer.
  ClientRequest Receive() {
    zmq::message_t frame;
    EXPECT_TRUE(socket_.recv(route_));
    EXPECT_TRUE(socket_.recv(frame));
    ClientRequest request;
    EXPECT_TRUE(request.ParseFromArray(frame.data(), static_cast<int>(frame.size())));
    return request;
  }

  void Answer(const ClientRequest& request, ClientReply::Status status, const std::string& sqlstate = "") {
    ClientReply reply;
    reply.set_request_id(request.request_id());
    reply.set_status(status);
    reply.set_sqlstate(sqlstate);
    reply.set_message("said " + sqlstate);
    zmq::message_t route;
    route.copy(route_);
    EXPECT_TRUE(socket_.send(route, zmq::send_flags::sndmore));
    EXPECT_TRUE(socket_.send(zmq::buffer(reply.SerializeAsString())));
  }

 private:
  zmq::context_t context_;
  zmq::socket_t socket_{context_, zmq::socket_type::router};
  zmq::message_t route_;
};

Settings At(std::string endpoint, std::chrono::milliseconds retry_interval,
            std::chrono::milliseconds timeout) {
  Settings settings;
  settings.endpoint = std::move(endpoint);
  settings.retry_interval = retry_interval;
  settings.timeout = timeout;
  return settings;
}

std::string Nowhere() { return ""; }

TEST(Requests, AnAnswerBelongsToItsRequest) {
  FakeDaemon daemon;
  Requests requests(At(daemon.endpoint(), kLate, kLate), Nowhere);
  const auto first = requests.Ask(ClientRequest::COMMIT, kTxId);
  const auto second = requests.Ask(ClientRequest::COMMIT, kTxId);
  const ClientRequest one = daemon.Receive();
  EXPECT_EQ(one.kind(), ClientRequest::COMMIT);
  EXPECT_EQ(one.tx_id(), "\x01\x23\x45\x67\x89\xab\x7d\xef\x81\x23\x45\x67\x89\xab\xcd\xef");
  daemon.Answer(daemon.Receive(), ClientReply::ABORTED, "40001");
  daemon.Answer(one, ClientReply::COMMITTED);
  EXPECT_EQ(requests.Wait(first, kTxId).status(), ClientReply::COMMITTED);
  EXPECT_EQ(requests.Wait(second, kTxId).sqlstate(), "40001");
}

TEST(Requests, WhatIsNoAnswerIsAskedAgain) {
  FakeDaemon daemon;
  Requests requests(At(daemon.endpoint(), kSoon, kLate), Nowhere);
  const auto number = requests.Ask(ClientRequest::COMMIT, kTxId);
  const ClientRequest first = daemon.Receive();
  daemon.Answer(first, ClientReply::FAILED, "57P03");
  std::thread later([&] {
    const ClientRequest second = daemon.Receive();
    EXPECT_EQ(second.request_id(), first.request_id());
    EXPECT_EQ(second.tx_id(), first.tx_id());
    daemon.Answer(second, ClientReply::COMMITTED);
  });
  EXPECT_EQ(requests.Wait(number, kTxId).status(), ClientReply::COMMITTED);
  later.join();
}

TEST(Requests, GarbageIsNoAnswer) {
  FakeDaemon daemon;
  Requests requests(At(daemon.endpoint(), kLate, kSoon), Nowhere);
  const auto number = requests.Ask(ClientRequest::COMMIT, kTxId);
  ClientRequest request = daemon.Receive();
  request.set_request_id(77);
  daemon.Answer(request, ClientReply::COMMITTED);
  EXPECT_THROW(requests.Wait(number, kTxId), OutcomeUnknown);
}

TEST(Requests, AfterTheTimeLimitTheOutcomeIsUnknown) {
  FakeDaemon daemon;
  Requests requests(At(daemon.endpoint(), kSoon, kSoon), Nowhere);
  const auto number = requests.Ask(ClientRequest::COMMIT, kTxId);
  try {
    requests.Wait(number, kTxId);
    FAIL() << "nobody has answered";
  } catch (const OutcomeUnknown& unknown) {
    EXPECT_EQ(unknown.tx_id(), kTxId);
  }
}

TEST(Requests, TheDaemonIsFoundWhereItListensNow) {
  FakeDaemon before;
  FakeDaemon after;
  std::string listens = before.endpoint();
  Requests requests(At("", kSoon, kLate), [&] { return listens; });
  const auto number = requests.Ask(ClientRequest::COMMIT, kTxId);
  before.Receive();
  listens = after.endpoint();
  std::thread daemon([&] { after.Answer(after.Receive(), ClientReply::COMMITTED); });
  EXPECT_EQ(requests.Wait(number, kTxId).status(), ClientReply::COMMITTED);
  daemon.join();
}

TEST(Requests, AnIdMustBeAUuid) {
  Requests requests(At("", kSoon, kSoon), Nowhere);
  EXPECT_THROW(requests.Ask(ClientRequest::COMMIT, "7"), pqxx::argument_error);
  EXPECT_THROW(requests.Ask(ClientRequest::COMMIT, "zzzzzzzz-89ab-7def-8123-456789abcdef"),
               pqxx::argument_error);
}

}  // namespace
}  // namespace psp_client
