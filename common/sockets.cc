#include "common/sockets.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <vector>

namespace psp {
namespace {

constexpr int kConnectTimeoutMs = 2'000;  // longer than a round trip and one lost packet
constexpr int kHandshakeMs = 5'000;       // several round trips with a key

void SetOptions(zmq::socket_t& socket, const SocketOptions& options) {
  socket.set(zmq::sockopt::linger, 0);
  socket.set(zmq::sockopt::sndhwm, options.send_queue_max);
  socket.set(zmq::sockopt::rcvhwm, options.receive_queue_max);
  socket.set(zmq::sockopt::maxmsgsize, options.message_bytes_max);
  socket.set(zmq::sockopt::tcp_keepalive, 1);
  socket.set(zmq::sockopt::heartbeat_ivl, static_cast<int>(options.heartbeat_interval_ms));
  socket.set(zmq::sockopt::heartbeat_timeout, static_cast<int>(options.heartbeat_timeout_ms));
  // The peer, too, drops a connection over which it heard nothing for this long.
  socket.set(zmq::sockopt::heartbeat_ttl, static_cast<int>(options.heartbeat_timeout_ms));
  // A connection attempt whose packets vanish ends after this. Otherwise the kernel's SYN back-off, which
  // doubles up to two minutes, would keep the peer away for as long as the line was cut, once more.
  socket.set(zmq::sockopt::connect_timeout, kConnectTimeoutMs);
  socket.set(zmq::sockopt::handshake_ivl,
             std::max(kHandshakeMs, static_cast<int>(options.heartbeat_timeout_ms)));
  // Sent bytes without an acknowledgement end a connection, too.
  socket.set(zmq::sockopt::tcp_maxrt, static_cast<int>(options.heartbeat_timeout_ms));
  socket.set(zmq::sockopt::reconnect_ivl, 50);
  socket.set(zmq::sockopt::reconnect_ivl_max, 250);
}

void SetServerKey(zmq::socket_t& socket, const ClusterKey& key) {
  socket.set(zmq::sockopt::curve_server, 1);
  socket.set(zmq::sockopt::curve_secretkey, key.secret);
}

void SetClientKey(zmq::socket_t& socket, const ClusterKey& key) {
  socket.set(zmq::sockopt::curve_serverkey, key.public_key);
  socket.set(zmq::sockopt::curve_publickey, key.public_key);
  socket.set(zmq::sockopt::curve_secretkey, key.secret);
}

// The last byte of a route where REQ sockets are served too: how the peer's messages are framed.
constexpr char kReq = 'r';
constexpr char kDealer = 'd';

bool Parse(const zmq::message_t& frame, google::protobuf::MessageLite* message) {
  return frame.size() <= std::numeric_limits<int>::max() &&
         message->ParseFromArray(frame.data(), static_cast<int>(frame.size()));
}

// Takes one whole ZeroMQ message; false when there is none.
bool TakeFrames(zmq::socket_t& socket, std::vector<zmq::message_t>* frames) {
  frames->clear();
  bool more = true;
  while (more) {
    zmq::message_t& frame = frames->emplace_back();
    if (!socket.recv(frame, zmq::recv_flags::dontwait)) return false;
    more = frame.more();
  }
  return true;
}

zmq::message_t Serialised(const google::protobuf::MessageLite& message) {
  zmq::message_t frame(message.ByteSizeLong());
  message.SerializeWithCachedSizesToArray(static_cast<std::uint8_t*>(frame.data()));
  return frame;
}

SendOutcome SendTo(zmq::socket_t& socket, std::string_view route, bool is_req, zmq::message_t frame) {
  constexpr auto kMore = zmq::send_flags::sndmore | zmq::send_flags::dontwait;
  try {
    const bool taken = socket.send(zmq::buffer(route), kMore).has_value() &&
                       (!is_req || socket.send(zmq::message_t(), kMore).has_value()) &&
                       socket.send(std::move(frame), zmq::send_flags::dontwait).has_value();
    return taken ? SendOutcome::kSent : SendOutcome::kUnreachable;
  } catch (const zmq::error_t& problem) {
    if (problem.num() == EHOSTUNREACH) return SendOutcome::kUnreachable;
    throw;
  }
}

zmq::socket_t MakeDealer(zmq::context_t& context, const std::string& endpoint, const SocketOptions& options) {
  zmq::socket_t socket(context, zmq::socket_type::dealer);
  SetOptions(socket, options);
  if (options.key) SetClientKey(socket, *options.key);
  socket.set(zmq::sockopt::immediate, 1);  // queue only for a connection that stands
  socket.connect(endpoint);
  return socket;
}

}  // namespace

bool IsLocal(std::string_view endpoint) {
  for (const std::string_view start : {"tcp://127.", "tcp://localhost:", "tcp://[::1]:"}) {
    if (endpoint.starts_with(start)) return true;
  }
  return false;
}

std::string CheckEndpoint(std::string_view text) {
  constexpr std::string_view kPrefix = "tcp://";
  const std::size_t colon = text.rfind(':');
  if (text.starts_with(kPrefix) && colon != std::string_view::npos && colon > kPrefix.size()) {
    const std::string_view digits = text.substr(colon + 1);
    std::uint16_t port = 0;
    const auto [end, problem] = std::from_chars(digits.begin(), digits.end(), port);
    if (problem == std::errc() && end == digits.end() && port != 0) return {};
  }
  return "'" + std::string(text) + "' does not look like tcp://HOST:PORT";
}

RouterSocket::RouterSocket(zmq::context_t& context, const std::string& endpoint, const SocketOptions& options)
    : req_peers_(options.req_peers), socket_(context, zmq::socket_type::router) {
  SetOptions(socket_, options);
  if (options.key) SetServerKey(socket_, *options.key);
  socket_.set(zmq::sockopt::router_mandatory, 1);
  socket_.set(zmq::sockopt::router_handover, 0);
  socket_.bind(endpoint);
}

bool RouterSocket::Receive(std::string* route, google::protobuf::MessageLite* message) {
  std::vector<zmq::message_t> frames;
  while (TakeFrames(socket_, &frames)) {
    route->assign(frames[0].to_string_view());
    const bool is_req = req_peers_ && frames.size() == 3 && frames[1].empty();
    if (req_peers_) route->push_back(is_req ? kReq : kDealer);
    if (frames.size() == (is_req ? 3 : 2) && Parse(frames.back(), message)) return true;
    ++malformed_total_;
    if (malformed_peers_.First(*route)) {
      spdlog::warn("a peer sent a malformed message ({} frames); its malformed messages are dropped",
                   frames.size());
    }
  }
  return false;
}

SendOutcome RouterSocket::Send(std::string_view route, const google::protobuf::MessageLite& message) {
  return SendFrame(route, Serialised(message));
}

SendOutcome RouterSocket::SendBytes(std::string_view route, std::string_view bytes) {
  return SendFrame(route, zmq::message_t(bytes.data(), bytes.size()));
}

SendOutcome RouterSocket::SendFrame(std::string_view route, zmq::message_t frame) {
  if (!req_peers_) return SendTo(socket_, route, false, std::move(frame));
  return SendTo(socket_, route.substr(0, route.size() - 1), route.back() == kReq, std::move(frame));
}

DealerSocket::DealerSocket(zmq::context_t& context, const std::string& endpoint, const SocketOptions& options)
    : context_(context),
      endpoint_(endpoint),
      options_(options),
      socket_(MakeDealer(context, endpoint, options)) {}

bool DealerSocket::Receive(google::protobuf::MessageLite* message) {
  std::vector<zmq::message_t> frames;
  while (TakeFrames(socket_, &frames)) {
    if (frames.size() == 1 && Parse(frames[0], message)) return true;
    ++malformed_total_;
    if (malformed_peers_.First("primary")) {
      spdlog::warn("the primary sent a malformed message ({} frames); such messages are dropped",
                   frames.size());
    }
  }
  return false;
}

SendOutcome DealerSocket::Send(const google::protobuf::MessageLite& message) {
  return socket_.send(Serialised(message), zmq::send_flags::dontwait) ? SendOutcome::kSent
                                                                      : SendOutcome::kUnreachable;
}

SendOutcome DealerSocket::SendBytes(std::string_view bytes) {
  return socket_.send(zmq::buffer(bytes), zmq::send_flags::dontwait) ? SendOutcome::kSent
                                                                     : SendOutcome::kUnreachable;
}

void DealerSocket::Reconnect() { socket_ = MakeDealer(context_, endpoint_, options_); }

}  // namespace psp
