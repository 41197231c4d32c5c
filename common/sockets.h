// The two kinds of ZeroMQ socket that psp uses: one protobuf message per ZeroMQ message, never blocking.
//
// What cannot be parsed is counted, logged once per peer, and dropped. Each socket belongs to the one thread
// that polls it: Wait, then call Receive until it gives nothing (edge-triggered). Outgoing queues have no
// bound in ZeroMQ: a sender of large amounts must keep account of the bytes itself.
#pragma once

#include <google/protobuf/message_lite.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <zmq.hpp>

#include "common/cluster_key.h"
#include "common/log.h"
#include "common/wait_for_input.h"

namespace psp {

struct SocketOptions {
  std::int64_t message_bytes_max = 1 << 30;  // a peer that sends more is disconnected
  std::int64_t heartbeat_interval_ms = 500;  // ZeroMQ's own, which finds dead TCP connections
  std::int64_t heartbeat_timeout_ms = 3000;
  int send_queue_max = 0;     // messages for each peer, what comes then is dropped; 0: no bound
  int receive_queue_max = 0;  // messages of each peer, which then must wait; 0: no bound
  // ROUTER: peers may be REQ sockets, too, which send an empty frame first and want it back.
  bool req_peers = false;
  std::optional<ClusterKey> key{};  // of both ends; a peer without it, or with another, is never heard
};

// Whether only this machine can reach it.
bool IsLocal(std::string_view endpoint);

// What is wrong with the configured tcp://HOST:PORT; empty: nothing.
std::string CheckEndpoint(std::string_view text);

enum class SendOutcome {
  kSent,         // given to ZeroMQ, in order; no promise that it arrives
  kUnreachable,  // no such peer (any more)
};

// The end with many peers (the primary's, and a semi-primary's for its clients), each with a route that lives
// as long as its connection.
class RouterSocket {
 public:
  // Binds at once; throws zmq::error_t (address in use, no such address). Do not share `context` across fork.
  RouterSocket(zmq::context_t& context, const std::string& endpoint, const SocketOptions& options);

  zmq::pollitem_t poll_item() { return {socket_.handle(), 0, ZMQ_POLLIN, 0}; }
  // See WaitForInput.
  template <std::size_t n>
  std::array<bool, n> Wait(const std::array<int, n>& fds, int timeout_ms) {
    return WaitForInput(socket_, fds, timeout_ms);
  }

  // The next well-formed message: its sender's route is put into `*route`, the content into `*message`.
  // False when nothing more is there.
  bool Receive(std::string* route, google::protobuf::MessageLite* message);

  SendOutcome Send(std::string_view route, const google::protobuf::MessageLite& message);
  // The same for a message that is serialised already.
  SendOutcome SendBytes(std::string_view route, std::string_view bytes);

  // How long a closed socket still sends what was queued before (0 unless called).
  void LingerOnClose(std::int64_t linger_ms) {
    socket_.set(zmq::sockopt::linger, static_cast<int>(linger_ms));
  }

  std::uint64_t malformed_total() const { return malformed_total_; }
  // The real endpoint when bound to port 0.
  std::string last_endpoint() const { return socket_.get(zmq::sockopt::last_endpoint); }

  // For a loop that also waits for another socket. If HasInput is false, the next message makes fd()
  // readable. Call HasInput again after each Send or Receive.
  int fd() const { return socket_.get(zmq::sockopt::fd); }
  bool HasInput() { return (socket_.get(zmq::sockopt::events) & ZMQ_POLLIN) != 0; }

 private:
  SendOutcome SendFrame(std::string_view route, zmq::message_t frame);

  const bool req_peers_;
  zmq::socket_t socket_;
  std::uint64_t malformed_total_ = 0;
  LogOnce malformed_peers_;
};

// The SP's end: one primary. ZeroMQ connects again by itself and the primary then sees a new route.
class DealerSocket {
 public:
  DealerSocket(zmq::context_t& context, const std::string& endpoint, const SocketOptions& options);

  zmq::pollitem_t poll_item() { return {socket_.handle(), 0, ZMQ_POLLIN, 0}; }
  // See WaitForInput.
  template <std::size_t n>
  std::array<bool, n> Wait(const std::array<int, n>& fds, int timeout_ms) {
    return WaitForInput(socket_, fds, timeout_ms);
  }

  bool Receive(google::protobuf::MessageLite* message);
  // kUnreachable: there is no connection just now, and the message was dropped.
  SendOutcome Send(const google::protobuf::MessageLite& message);
  SendOutcome SendBytes(std::string_view bytes);

  // How long a closed socket still sends what was queued before (0 unless called).
  void LingerOnClose(std::int64_t linger_ms) {
    socket_.set(zmq::sockopt::linger, static_cast<int>(linger_ms));
  }

  // Drops the connection and everything queued, in both directions, and connects again.
  void Reconnect();

  std::uint64_t malformed_total() const { return malformed_total_; }

 private:
  zmq::context_t& context_;
  const std::string endpoint_;
  const SocketOptions options_;
  zmq::socket_t socket_;
  std::uint64_t malformed_total_ = 0;
  LogOnce malformed_peers_;
};

}  // namespace psp
