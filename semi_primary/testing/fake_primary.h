// For tests: a primary that is only a socket and sends what the test wants.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>
#include <zmq.hpp>

#include "common/clock.h"
#include "common/ids.h"
#include "common/sockets.h"
#include "proto/psp.pb.h"

namespace psp::sp {

// One thread. Heartbeats are answered while the test waits for a message.
class FakePrimary {
 public:
  static constexpr std::int64_t kPatienceMs = 60'000;
  using Kind = proto::ToPrimary::BodyCase;

  explicit FakePrimary(Epoch epoch) : epoch_(epoch) { Bind("tcp://127.0.0.1:*"); }

  // The next message of that kind; others before it are dropped.
  proto::ToPrimary Await(Kind kind) { return AwaitOneOf({kind}); }
  proto::ToPrimary AwaitOneOf(const std::vector<Kind>& kinds) {
    const std::int64_t until_us = MonotonicUs() + kPatienceMs * 1000;
    proto::ToPrimary message;
    while (MonotonicUs() < until_us && !testing::Test::HasFailure()) {
      while (socket_->Receive(&route_, &message)) {
        if (message.has_heartbeat() && answers_heartbeats_) AnswerHeartbeat(message.heartbeat().sent_us());
        if (std::ranges::find(kinds, message.body_case()) != kinds.end()) return message;
      }
      zmq::pollitem_t item = socket_->poll_item();
      zmq::poll(&item, 1, std::chrono::milliseconds(200));
    }
    EXPECT_TRUE(testing::Test::HasFailure()) << "the semi-primary has not sent message " << kinds[0];
    return {};
  }
  proto::Certify AwaitCertify() { return Await(Kind::kCertify).certify(); }
  // Until everything up to there is applied and on the disk.
  void AwaitAck(GlobalT watermark) {
    while (Await(Kind::kAck).ack().watermark() < watermark && !testing::Test::HasFailure())
      ;
  }

  // Sends what the semi-primary asks for, each time that it asks, until it has acknowledged everything.
  void PublishUntilAck(const std::vector<proto::Transaction>& transactions) {
    Publish(transactions);
    while (!testing::Test::HasFailure()) {
      const proto::ToPrimary message = AwaitOneOf({Kind::kAck, Kind::kStreamRequest});
      if (message.has_stream_request()) {
        std::vector<proto::Transaction> rest = transactions;
        std::erase_if(rest,
                      [&](const auto& one) { return one.global_t() <= message.stream_request().from(); });
        PublishAt(message.stream_request().from(), rest);
      }
      if (message.has_ack() && message.ack().watermark() >= closed_t_) return;
    }
  }

  proto::Hello AwaitHello() {
    proto::Hello hello;
    do hello = Await(Kind::kHello).hello();
    while (hello.incarnation() == ended_ && !testing::Test::HasFailure());
    incarnation_ = hello.incarnation();
    return hello;
  }
  // Answers Hello as a primary does, and begins the stream where the semi-primary wants it.
  void Enter() {
    AwaitHello();
    SendWelcome();
    closed_t_ = Await(Kind::kStreamRequest).stream_request().from();
    Publish({});
  }
  // What still comes from the daemon that has ended is no Hello to answer.
  void ItHasEnded() { ended_ = incarnation_; }
  // A primary that does not know the semi-primary any more.
  void ForgetIt() {
    Await(Kind::kHeartbeat);
    proto::ToSemiPrimary message;
    message.mutable_welcome()->set_say_hello(true);
    Send(message);
  }
  // Closes the connection, with everything that was on its way, and listens at the same place again.
  void Drop() {
    const std::string endpoint = endpoint_;
    socket_.reset();
    context_.reset();
    Bind(endpoint);
  }

  void SendWelcome() {
    proto::ToSemiPrimary message;
    proto::Welcome* welcome = message.mutable_welcome();
    welcome->set_closed_t(closed_t_);
    welcome->set_heartbeat_interval_ms(50);
    for (const std::string& history : histories_) {
      proto::EpochStart* epoch = welcome->add_epochs();
      epoch->set_history(history);
      epoch->set_start_t(1);
    }
    for (const auto& [sp_id, name] : {std::pair(1, "one"), std::pair(2, "two")}) {
      proto::SemiPrimaryName* known = welcome->add_semi_primaries();
      known->set_sp_id(static_cast<SpId>(sp_id));
      known->set_name(name);
    }
    Send(message);
  }
  void Refuse(proto::Refused::Reason reason) {
    proto::ToSemiPrimary message;
    message.mutable_refused()->set_reason(reason);
    message.mutable_refused()->set_message("a reason");
    Send(message);
  }
  void Commit(const std::string& tx_id, GlobalT global_t) {
    proto::ToSemiPrimary message;
    message.mutable_decision()->set_tx_id(tx_id);
    message.mutable_decision()->set_global_t(global_t);
    Send(message);
  }
  void Abort(const std::string& tx_id, std::uint32_t table_id, const std::string& key) {
    proto::ToSemiPrimary message;
    message.mutable_decision()->set_tx_id(tx_id);
    proto::Conflict* conflict = message.mutable_decision()->mutable_conflict();
    conflict->set_table_id(table_id);
    conflict->set_key(key);
    conflict->set_winner_t(99);
    conflict->set_winner_sp_id(2);
    Send(message);
  }
  // What comes next in the stream.
  void Publish(const std::vector<proto::Transaction>& transactions) {
    const GlobalT from_t = closed_t_;
    if (!transactions.empty()) closed_t_ = transactions.back().global_t();
    PublishAt(from_t, transactions);
  }
  void PublishAt(GlobalT from_t, const std::vector<proto::Transaction>& transactions) {
    proto::ToSemiPrimary message;
    message.mutable_replicate()->set_from_t(from_t);
    message.mutable_replicate()->set_closed_t(transactions.empty() ? from_t : transactions.back().global_t());
    for (const auto& transaction : transactions)
      *message.mutable_replicate()->add_transactions() = transaction;
    Send(message);
  }

  // With the fake's epoch, unless the message has one.
  void Send(proto::ToSemiPrimary message) {
    if (message.epoch() == 0) message.set_epoch(epoch_);
    SendRaw(message.SerializeAsString());
  }
  void SendRaw(std::string_view bytes) { ASSERT_EQ(socket_->SendBytes(route_, bytes), SendOutcome::kSent); }

  void set_epoch(Epoch epoch) { epoch_ = epoch; }
  Epoch epoch() const { return epoch_; }
  // 16 bytes: whose numbers it gives out.
  // Of its epochs, all of which begin with the first number: the last one has decided it.
  void set_histories(std::vector<std::string> histories) { histories_ = std::move(histories); }
  void set_answers_heartbeats(bool answers) { answers_heartbeats_ = answers; }
  const std::string& endpoint() const { return endpoint_; }
  // The last number of the stream.
  GlobalT closed_t() const { return closed_t_; }

 private:
  void Bind(const std::string& endpoint) {
    context_ = std::make_unique<zmq::context_t>();
    SocketOptions options;
    options.heartbeat_timeout_ms = kPatienceMs;
    socket_ = std::make_unique<RouterSocket>(*context_, endpoint, options);
    endpoint_ = socket_->last_endpoint();
  }
  void AnswerHeartbeat(std::int64_t sent_us) {
    proto::ToSemiPrimary message;
    message.set_epoch(epoch_);
    message.mutable_heartbeat_reply()->set_sent_us(sent_us);
    message.mutable_heartbeat_reply()->set_closed_t(closed_t_);
    socket_->Send(route_, message);  // a daemon that has gone meanwhile needs none
  }

  Epoch epoch_;
  std::vector<std::string> histories_ = {std::string(16, 'h')};
  GlobalT closed_t_ = 0;
  bool answers_heartbeats_ = true;
  std::uint64_t incarnation_ = 0;
  std::uint64_t ended_ = 0;
  std::string route_;  // of the daemon that sent the last message
  std::string endpoint_;
  std::unique_ptr<zmq::context_t> context_;
  std::unique_ptr<RouterSocket> socket_;
};

}  // namespace psp::sp
