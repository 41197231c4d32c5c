// SPDX-License-Identifier: PostgreSQL
// The ZeroMQ side of views mode: which requests are under way, when they are sent again, what was answered.
//
// One thread at a time. The messages are proto/psp_client.proto, the rules proto/README.md.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <zmq.hpp>

#include "client_libs/cpp/psp_client.h"
#include "proto/psp_client.pb.h"

namespace psp_client {

class Requests {
 public:
  // Where the daemon listens, as its database has it; empty: not known now. May be called during Wait, throws
  // nothing.
  using FindEndpoint = std::function<std::string()>;

  Requests(const Settings& settings, FindEndpoint find_endpoint);

  // Sends a request; returns its number, to be given to Wait. Throws pqxx::argument_error if tx_id is no
  // uuid.
  std::uint64_t Ask(psp::proto::ClientRequest::Kind kind, const TxId& tx_id);

  // Waits for the answer, once for each number. Throws OutcomeUnknown after the time limit.
  psp::proto::ClientReply Wait(std::uint64_t number, const TxId& tx_id);

 private:
  using Clock = std::chrono::steady_clock;
  struct Request {
    std::string message;
    Clock::time_point send_at;
    int unanswered = 0;        // how often it was sent since the daemon was last heard about it
    std::string last_failure;  // what it said that was no answer yet
  };

  void Connect();
  void FindAgain();
  void SendDue();
  void Receive();
  void TakeReply(const zmq::message_t& message);
  void Pause(Clock::time_point until);

  const std::chrono::milliseconds retry_interval_;
  const std::chrono::milliseconds timeout_;
  const bool endpoint_is_fixed_;
  const FindEndpoint find_endpoint_;
  std::string endpoint_;
  zmq::context_t context_;
  std::unique_ptr<zmq::socket_t> socket_;  // none while it is not known where the daemon listens
  std::uint64_t next_number_ = 1;
  std::map<std::uint64_t, Request> under_way_;
  std::map<std::uint64_t, psp::proto::ClientReply> replies_;
};

}  // namespace psp_client
