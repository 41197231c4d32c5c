// For tests: a semi-primary that is only a socket.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>
#include <zmq.hpp>

#include "common/clock.h"
#include "common/epochs.h"
#include "common/ids.h"
#include "common/sockets.h"
#include "proto/psp.pb.h"

namespace psp::primary {

class FakeSp {
 public:
  FakeSp(const std::string& endpoint, std::string cluster_id, SpId sp_id, std::string name,
         std::uint64_t incarnation)
      : cluster_id_(std::move(cluster_id)),
        sp_id_(sp_id),
        name_(std::move(name)),
        incarnation_(incarnation),
        socket_(context_, endpoint, {}) {}

  // Sends as soon as there is a connection.
  void Send(proto::ToPrimary message) {
    zmq::pollitem_t item = socket_.poll_item();
    item.events = ZMQ_POLLOUT;
    ASSERT_EQ(zmq::poll(&item, 1, std::chrono::milliseconds(5000)), 1);
    if (!message.has_hello() && message.epoch() == 0) message.set_epoch(epoch_);
    ASSERT_EQ(socket_.Send(message), SendOutcome::kSent);
  }
  void SendRaw(std::string_view bytes) { ASSERT_EQ(socket_.SendBytes(bytes), SendOutcome::kSent); }

  // `newest_t` and `own` were decided in the epoch of that history.
  void SayHello(GlobalT watermark, GlobalT newest_t = 0, const std::string& history = {},
                const Commits& own = {}) {
    proto::ToPrimary message;
    proto::Hello* hello = message.mutable_hello();
    hello->set_cluster_id(cluster_id_);
    hello->set_sp_id(sp_id_);
    hello->set_name(name_);
    hello->set_incarnation(incarnation_);
    hello->set_watermark(watermark);
    hello->set_protocol_version(kProtocolVersion);
    hello->set_newest_t(newest_t);
    hello->set_history(history);
    for (const auto& [global_t, tx_id] : own) {
      proto::OwnCommit* one = hello->add_own_commits();
      one->set_global_t(global_t);
      one->set_tx_id(tx_id.ToBytes());
      one->set_history(history);
    }
    Send(message);
  }

  void RequestStream(GlobalT from, bool with_copy = false) {
    proto::ToPrimary message;
    message.mutable_stream_request()->set_from(from);
    message.mutable_stream_request()->set_with_copy(with_copy);
    Send(message);
  }

  void Certify(const TxId& tx_id, GlobalT watermark, const proto::WriteSet& rows,
               const std::vector<GlobalT>& seen = {}, const proto::KeyUses& uses = {}) {
    proto::ToPrimary message;
    message.mutable_certify()->set_tx_id(tx_id.ToBytes());
    message.mutable_certify()->mutable_snapshot()->set_watermark(watermark);
    for (const GlobalT t : seen) message.mutable_certify()->mutable_snapshot()->add_seen(t);
    message.mutable_certify()->set_write_set(rows.SerializeAsString());
    *message.mutable_certify()->mutable_uses() = uses;
    Send(message);
  }

  void Ack(GlobalT watermark) {
    proto::ToPrimary message;
    message.mutable_ack()->set_watermark(watermark);
    Send(message);
  }

  // The next message of any kind; heartbeats go on meanwhile and their replies are left out.
  std::optional<proto::ToSemiPrimary> Next(std::int64_t timeout_ms = 5000) {
    const std::int64_t until_us = MonotonicUs() + timeout_ms * 1000;
    proto::ToSemiPrimary message;
    while (MonotonicUs() < until_us) {
      while (socket_.Receive(&message)) {
        if (message.has_welcome()) epoch_ = message.epoch();
        if (!message.has_heartbeat_reply()) return message;
      }
      zmq::pollitem_t item = socket_.poll_item();
      zmq::poll(&item, 1, std::chrono::milliseconds(200));
      if (epoch_ != 0 && item.revents == 0) Beat();
    }
    return std::nullopt;
  }

  void set_epoch(Epoch epoch) { epoch_ = epoch; }
  Epoch epoch() const { return epoch_; }

 private:
  void Beat() {
    proto::ToPrimary message;
    message.mutable_heartbeat()->set_sent_us(MonotonicUs());
    Send(message);
  }

  const std::string cluster_id_;
  const SpId sp_id_;
  const std::string name_;
  const std::uint64_t incarnation_;
  Epoch epoch_ = 0;
  zmq::context_t context_;
  DealerSocket socket_;
};

}  // namespace psp::primary
