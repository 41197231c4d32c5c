// SPDX-License-Identifier: PostgreSQL
#include "client_libs/cpp/requests.h"

#include <algorithm>
#include <pqxx/pqxx>
#include <thread>
#include <utility>

namespace psp_client {
namespace {

using psp::proto::ClientReply;
using psp::proto::ClientRequest;

constexpr int kLingerMs = 1000;  // a commit request that was just sent still goes out
constexpr int kFindAgainAfter =
    2;  // a request that went unanswered so often: the daemon may listen elsewhere
constexpr std::chrono::milliseconds kLookInterval{200};  // for a daemon that has never run

// The 16 bytes of a uuid.
std::string BytesOf(const TxId& tx_id) {
  std::string digits;
  std::copy_if(tx_id.begin(), tx_id.end(), std::back_inserter(digits), [](char c) { return c != '-'; });
  if (digits.size() != 32 || digits.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos)
    throw pqxx::argument_error("psp: \"" + tx_id + "\" is no transaction id");
  std::string bytes;
  for (std::size_t i = 0; i < digits.size(); i += 2)
    bytes.push_back(static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16)));
  return bytes;
}

// FAILED replies that say nothing of the transaction's end: the same request is sent again, later.
bool IsNoAnswer(const ClientReply& reply) {
  const std::string& state = reply.sqlstate();
  return reply.status() == ClientReply::FAILED && (state == "08007" || state == "57P03" || state == "25001");
}

}  // namespace

Requests::Requests(const Settings& settings, FindEndpoint find_endpoint)
    : retry_interval_(settings.retry_interval),
      timeout_(settings.timeout),
      endpoint_is_fixed_(!settings.endpoint.empty()),
      find_endpoint_(std::move(find_endpoint)),
      endpoint_(endpoint_is_fixed_ ? settings.endpoint : find_endpoint_()) {
  if (!endpoint_.empty()) Connect();
}

std::uint64_t Requests::Ask(ClientRequest::Kind kind, const TxId& tx_id) {
  ClientRequest request;
  request.set_request_id(next_number_);
  request.set_kind(kind);
  request.set_tx_id(BytesOf(tx_id));
  Request& made = under_way_[next_number_];
  made.message = request.SerializeAsString();
  made.send_at = Clock::now();
  Receive();
  SendDue();
  return next_number_++;
}

ClientReply Requests::Wait(std::uint64_t number, const TxId& tx_id) {
  const Clock::time_point deadline = Clock::now() + timeout_;
  while (true) {
    Receive();
    if (auto found = replies_.extract(number)) return std::move(found.mapped());
    Request& request = under_way_.at(number);
    if (Clock::now() >= deadline) {
      const std::string why = request.last_failure;
      under_way_.erase(number);
      throw OutcomeUnknown(tx_id, why.empty() ? "the semi-primary does not answer" : why);
    }
    if (socket_ == nullptr || request.unanswered >= kFindAgainAfter) FindAgain();
    SendDue();
    Pause(deadline);
  }
}

void Requests::Connect() {
  for (auto& [number, request] : under_way_) {
    request.send_at = Clock::now();  // nothing has been sent on the new connection
    request.unanswered = 0;
  }
  socket_ = std::make_unique<zmq::socket_t>(context_, zmq::socket_type::dealer);
  socket_->set(zmq::sockopt::linger, kLingerMs);
  socket_->connect(endpoint_);
}

void Requests::FindAgain() {
  if (endpoint_is_fixed_) return;
  const std::string found = find_endpoint_();
  if (found.empty() || (found == endpoint_ && socket_ != nullptr)) return;
  endpoint_ = found;
  Connect();
}

void Requests::SendDue() {
  if (socket_ == nullptr) return;
  const Clock::time_point now = Clock::now();
  for (auto& [number, request] : under_way_) {
    if (request.send_at > now) continue;
    request.send_at = now + retry_interval_;
    ++request.unanswered;
    // If the socket is full, this request is not taken. It is sent again later.
    static_cast<void>(socket_->send(zmq::buffer(request.message), zmq::send_flags::dontwait));
  }
}

void Requests::Receive() {
  zmq::message_t message;
  while (socket_ != nullptr && socket_->recv(message, zmq::recv_flags::dontwait)) TakeReply(message);
}

void Requests::TakeReply(const zmq::message_t& message) {
  ClientReply reply;
  if (!reply.ParseFromArray(message.data(), static_cast<int>(message.size()))) return;
  const auto found = under_way_.find(reply.request_id());
  if (found == under_way_.end()) return;  // it came twice
  found->second.unanswered = 0;
  if (IsNoAnswer(reply)) {
    found->second.last_failure = reply.message();
    return;
  }
  under_way_.erase(found);
  replies_[reply.request_id()] = std::move(reply);
}

void Requests::Pause(Clock::time_point until) {
  if (socket_ == nullptr) {
    std::this_thread::sleep_for(std::min<Clock::duration>(kLookInterval, until - Clock::now()));
    return;
  }
  for (const auto& [number, request] : under_way_) until = std::min(until, request.send_at);
  const auto wait = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
  zmq::pollitem_t item{socket_->handle(), 0, ZMQ_POLLIN, 0};
  try {
    zmq::poll(&item, 1, std::max(wait, std::chrono::milliseconds{0}));
  } catch (const zmq::error_t& problem) {
    if (problem.num() != EINTR) throw;  // a signal of the application: the caller looks again
  }
}

}  // namespace psp_client
