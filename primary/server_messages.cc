// The server's answers to messages, one function for each.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "common/clock.h"
#include "primary/server.h"

namespace psp {
namespace {

constexpr std::size_t kWaitingHellosMax = 1000;

}  // namespace

void Server::OnMessage(const std::string& route, proto::ToPrimary* message) {
  if (message->has_hello()) return OnHello(route, message->hello(), false);
  const auto sp_id = connections_.Heard(route, message->epoch(), MonotonicUs());
  if (!sp_id) {
    if (!message->has_goodbye()) router_.Send(route, WelcomeMessage(true));
    return;
  }
  switch (message->body_case()) {
    case proto::ToPrimary::kCertify:
      return OnCertify(*sp_id, message->mutable_certify());
    case proto::ToPrimary::kAck:
      acknowledgements_.OnAck(*sp_id, std::min(message->ack().watermark(), streams_.closed_t()));
      return Carry(streams_.OnApplied(*sp_id, message->ack().watermark()));
    case proto::ToPrimary::kHeartbeat:
      return OnHeartbeat(*sp_id, route, message->heartbeat());
    case proto::ToPrimary::kRecover:
      return OnRecover(*sp_id, message->recover());
    case proto::ToPrimary::kOutcomeRequest:
      return OnOutcomeRequest(*sp_id, message->outcome_request());
    case proto::ToPrimary::kGoodbye:
      return Forget(*sp_id, "says goodbye");
    case proto::ToPrimary::kHello:
    case proto::ToPrimary::BODY_NOT_SET:
      if (logged_.First("empty " + std::to_string(*sp_id)))
        spdlog::warn("SP {} sent an empty message", *sp_id);
  }
}

void Server::OnHello(const std::string& route, const proto::Hello& hello, bool registry_is_fresh) {
  const auto answer = connections_.Hello(route, hello, truncated_t_, registry_is_fresh, MonotonicUs());
  proto::ToSemiPrimary message;
  switch (answer.kind) {
    case Connections::HelloAnswer::Kind::kAskRegistry:
      if (waiting_hellos_.size() >= kWaitingHellosMax) return;  // it says Hello again
      waiting_hellos_.push_back({AskHousekeeper(false, false), route, hello});
      return;
    case Connections::HelloAnswer::Kind::kRefused:
      if (logged_.First(answer.refused.message())) {
        spdlog::warn("SP {} ({}) is refused: {}", hello.sp_id(), hello.name(), answer.refused.message());
      }
      message.set_epoch(epoch_);
      *message.mutable_refused() = answer.refused;
      router_.Send(route, message);
      return;
    case Connections::HelloAnswer::Kind::kWelcome:
      spdlog::info("SP {} ({}) is here at {}", hello.sp_id(), hello.name(), hello.watermark());
      streams_.Forget(hello.sp_id());  // until it says from where
      message = WelcomeMessage(false);
      router_.Send(route, message);
      return;
  }
}

proto::ToSemiPrimary Server::WelcomeMessage(bool say_hello) const {
  proto::ToSemiPrimary message;
  message.set_epoch(epoch_);
  proto::Welcome* welcome = message.mutable_welcome();
  welcome->set_closed_t(streams_.closed_t());
  welcome->set_oldest_log_t(truncated_t_);
  welcome->set_say_hello(say_hello);
  welcome->set_write_set_bytes_max(static_cast<std::uint64_t>(settings_.write_set_bytes_max));
  welcome->set_heartbeat_interval_ms(static_cast<std::uint32_t>(settings_.heartbeat_interval_ms));
  for (const auto& [sp_id, sp] : connections_.registry()) {
    proto::SemiPrimaryName* name = welcome->add_semi_primaries();
    name->set_sp_id(sp_id);
    name->set_name(sp.name);
  }
  return message;
}

void Server::OnCertify(SpId sp_id, proto::Certify* message) {
  if (stop_by_us_ != 0) return;  // the SP asks the next daemon
  CertifyRequest request;
  if (!intake_.Parse(sp_id, connections_.IncarnationOf(sp_id), message, &request)) {
    if (logged_.First("tx_id " + std::to_string(sp_id)))
      spdlog::warn("SP {} sent a request without a tx id", sp_id);
    return;
  }
  const std::size_t bytes_max = static_cast<std::size_t>(settings_.inflight_bytes_max);
  if (scheduler_.bytes() + waiting_bytes_ + request.write_set.size() > bytes_max) {
    request.refusal = "the primary is overloaded (inflight_bytes_max)";
    request.rows.Clear();
    request.write_set.clear();
  }
  if (request.refusal.empty() && intake_.UnknownTable(request) != 0) {
    waiting_bytes_ += request.write_set.size();
    waiting_requests_.push_back({AskHousekeeper(false, false), std::move(request)});
    return;
  }
  Admit(std::move(request));
}

void Server::OnRecover(SpId sp_id, const proto::Recover& recover) {
  const std::uint64_t incarnation = connections_.IncarnationOf(sp_id);
  if (recover.whole_table()) {
    spdlog::info("SP {} joins: the table is copied as of {}", sp_id, streams_.closed_t());
    acknowledgements_.OnJoin(sp_id, streams_.closed_t());
    return Carry(streams_.Join(sp_id, incarnation));
  }
  if (recover.from() > streams_.closed_t()) {
    return Refuse(sp_id, proto::Refused::UNSPECIFIED,
                  "the semi-primary stands at " + std::to_string(recover.from()) + ", the primary only at " +
                      std::to_string(streams_.closed_t()) + ": the primary's database is an older copy");
  }
  if (recover.from() < truncated_t_) {
    return Refuse(sp_id, proto::Refused::LOG_TRUNCATED,
                  "the log begins after " + std::to_string(truncated_t_) + ": join again");
  }
  spdlog::info("SP {} recovers from {} to {}", sp_id, recover.from(), streams_.closed_t());
  Carry(streams_.Recover(sp_id, incarnation, recover.from()));
}

void Server::OnOutcomeRequest(SpId sp_id, const proto::OutcomeRequest& request) {
  const auto tx_id = TxId::FromBytes(request.tx_id());
  if (!tx_id || stop_by_us_ != 0) return;
  scheduler_.RequestOutcome(*tx_id, sp_id);
}

void Server::OnHeartbeat(SpId sp_id, const std::string& route, const proto::Heartbeat& heartbeat) {
  proto::ToSemiPrimary message;
  message.set_epoch(epoch_);
  message.mutable_heartbeat_reply()->set_sent_us(heartbeat.sent_us());
  message.mutable_heartbeat_reply()->set_closed_t(streams_.closed_t());
  router_.Send(route, message);
  const auto rows_stored = heartbeat.has_snapshot_rows_stored()
                               ? std::optional<std::int64_t>(heartbeat.snapshot_rows_stored())
                               : std::nullopt;
  Carry(streams_.OnApplied(sp_id, heartbeat.applied()));
  Carry(streams_.OnStored(sp_id, rows_stored));
}

void Server::Admit(CertifyRequest request) {
  if (!request.refusal.empty() && logged_.First(request.refusal)) {
    spdlog::warn("a transaction of SP {} is refused: {}", request.sp_id, request.refusal);
  }
  scheduler_.Certify(std::move(request));
}

}  // namespace psp
