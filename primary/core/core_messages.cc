// The primary's answers to messages, one function for each.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "common/epochs_proto.h"
#include "primary/core/core.h"

namespace psp::primary {
namespace {

constexpr std::size_t kWaitingHellosMax = 1000;
constexpr int kToldReservationsMax = 5;

std::string NumberOf(SpId sp_id) { return "SP " + std::to_string(sp_id); }

std::string NumberOf(const proto::Hello& hello) {
  return NumberOf(hello.sp_id()) + " (" + hello.name() + ")";
}

}  // namespace

void Core::OnMessage(const std::string& route, proto::ToPrimary* message, std::int64_t now_us) {
  now_us_ = now_us;
  if (message->has_hello()) {
    return hearing_.is_over() ? OnHello(route, message->hello(), false, now_us)
                              : Hear(route, message->hello(), now_us);
  }
  const auto sp_id = connections_.OnMessageFrom(route, message->epoch(), now_us);
  if (!sp_id) {
    proto::ToSemiPrimary say_hello = Welcome(true);
    if (!message->has_goodbye()) SendOver(route, 0, &say_hello);
    return;
  }
  switch (message->body_case()) {
    case proto::ToPrimary::kCertify:
      return OnCertify(*sp_id, message->mutable_certify(), now_us);
    case proto::ToPrimary::kAck:
      return OnAck(*sp_id, message->ack().watermark());
    case proto::ToPrimary::kHeartbeat:
      return OnHeartbeat(*sp_id, message->heartbeat(), now_us);
    case proto::ToPrimary::kStreamRequest:
      return OnStreamRequest(*sp_id, message->stream_request());
    case proto::ToPrimary::kOutcomeRequest:
      return OnOutcomeRequest(*sp_id, message->outcome_request());
    case proto::ToPrimary::kHold:
      return OnHold(*sp_id, message->hold());
    case proto::ToPrimary::kEndHold:
      holds_.End(*sp_id, message->end_hold().transaction());
      return GoOnWithHolds();
    case proto::ToPrimary::kLost:
      return OnLost(*sp_id, message->mutable_lost(), now_us);
    case proto::ToPrimary::kLossReport:
      return OnLossReport(*sp_id, message->loss_report());
    case proto::ToPrimary::kGoodbye:
      return Forget(*sp_id, "says goodbye");
    case proto::ToPrimary::kHello:
    case proto::ToPrimary::BODY_NOT_SET:
      return AddNote(Note::Level::kWarning, "bad_message", *sp_id,
                     NumberOf(*sp_id) + " sent an empty message", true);
  }
}

void Core::SendRefusal(const std::string& route, const proto::Refused& refused) {
  proto::ToSemiPrimary message;
  *message.mutable_refused() = refused;
  SendOver(route, 0, &message);
}

// Who looks is answered as later, unless somebody is ahead: so that it comes, and says Hello. What it is refused for may pass; only
// who is stale is told so, and who cannot be understood.
void Core::Hear(const std::string& route, const proto::Hello& hello, std::int64_t now_us) {
  using proto::Refused;
  const auto objection = connections_.Objection(hello, truncated_t_, now_us);
  const auto reason = objection ? objection->reason() : Refused::UNSPECIFIED;
  if (reason == Refused::PROTOCOL_VERSION || reason == Refused::WRONG_CLUSTER) {
    return OnHello(route, hello, false, now_us);
  }
  hearing_.OnHello(route, hello, now_us);
  TakeHearing(now_us, route);
  const bool may_come = hello.look() && !objection && !hearing_.is_blocked();
  if (hearing_.is_over() || may_come) return OnHello(route, hello, false, now_us);
  Refused refused;
  refused.set_look(hello.look());
  refused.set_reason(hearing_.is_blocked() ? Refused::LACKS : Refused::NOT_YET);
  refused.set_message(hearing_.Told());
  if (reason == Refused::STALE_PRIMARY) {
    refused.set_reason(reason);
    refused.set_message(objection->message());
  }
  SendRefusal(route, refused);
}

// When it is over. A Hello from before may be of a daemon that is gone, or has gone elsewhere.
void Core::TakeHearing(std::int64_t now_us, std::string_view welcomed) {
  if (!hearing_.is_over()) return;
  for (const std::string& heard : hearing_.TakeRoutes(now_us)) {
    if (heard == welcomed) continue;
    proto::ToSemiPrimary say_hello = Welcome(true);
    SendOver(heard, 0, &say_hello);
  }
}

void Core::OnHello(const std::string& route, const proto::Hello& hello, bool registry_is_fresh,
                   std::int64_t now_us) {
  // Who looks for a primary goes to the next one; who was told may have asked before it heard that.
  if (away_ms_ > 0 && (hello.look() || told_away_.contains(route))) return;
  const auto answer = connections_.Hello(route, hello, truncated_t_, registry_is_fresh, now_us);
  proto::ToSemiPrimary message;
  switch (answer.kind) {
    case Connections::HelloAnswer::Kind::kAskRegistry:
      if (waiting_hellos_.size() >= kWaitingHellosMax) return;  // it says Hello again
      waiting_hellos_.Add(AskHousekeeper(false, false), {route, hello});
      return;
    case Connections::HelloAnswer::Kind::kRefused:
      AddNote(Note::Level::kWarning, "sp_refused", hello.sp_id(),
              NumberOf(hello) + " is refused: " + answer.refused.message(), true);
      return SendRefusal(route, answer.refused);
    case Connections::HelloAnswer::Kind::kLook:
      message.mutable_welcome()->set_look(true);
      for (const EpochStart& epoch : connections_.EpochsSince(hello.followed())) {
        AddTo(message.mutable_welcome()->mutable_epochs(), epoch);
      }
      return SendOver(route, 0, &message);
    case Connections::HelloAnswer::Kind::kWelcome:
      AddNote(Note::Level::kInfo, "sp_here", hello.sp_id(),
              NumberOf(hello) + " is here at " + std::to_string(hello.watermark()));
      EndConnection(hello.sp_id());  // until it says from where, and asks again
      message = Welcome(false);
      SendOver(route, hello.sp_id(), &message);
      if (away_ms_ > 0) TellAway(hello.sp_id());
      return;
  }
}

proto::ToSemiPrimary Core::Welcome(bool say_hello) const {
  proto::ToSemiPrimary message;
  proto::Welcome* welcome = message.mutable_welcome();
  welcome->set_closed_t(closed_t());
  welcome->set_oldest_log_t(truncated_t_);
  welcome->set_say_hello(say_hello);
  welcome->set_write_set_bytes_max(options_.write_set_bytes_max);
  welcome->set_heartbeat_interval_ms(static_cast<std::uint32_t>(options_.heartbeat_interval_ms));
  for (const EpochStart& epoch : connections_.epochs()) AddTo(welcome->mutable_epochs(), epoch);
  for (const auto& [sp_id, sp] : connections_.registry()) {
    proto::SemiPrimaryName* name = welcome->add_semi_primaries();
    name->set_sp_id(sp_id);
    name->set_name(sp.name);
  }
  return message;
}

void Core::SayAway(std::uint32_t limit_ms) {
  stopping_ = true;
  away_ms_ = limit_ms;
  for (const auto& [sp_id, sp] : connections_.registry()) TellAway(sp_id);
}

void Core::TellAway(SpId sp_id) {
  const std::string* route = connections_.RouteOf(sp_id);
  if (route == nullptr) return;
  told_away_.insert(*route);
  proto::ToSemiPrimary message;
  message.mutable_away()->set_limit_ms(away_ms_);
  SendOver(*route, sp_id, &message);
}

std::vector<std::string> Core::unaware() const {
  std::vector<std::string> names;
  for (const auto& [sp_id, sp] : connections_.registry()) {
    if (connections_.RouteOf(sp_id) != nullptr) names.push_back(sp.name);
  }
  return names;
}

void Core::OnCertify(SpId sp_id, proto::Certify* message, std::int64_t now_us) {
  if (stopping_) return;  // the SP asks the next daemon
  batch_timing_.OnArrival(sp_id, scheduler_.has_ready(), now_us);
  CertifyRequest request;
  request.arrived_us = now_us;
  if (!intake_.Parse(sp_id, connections_.IncarnationOf(sp_id), message, &request)) {
    return AddNote(Note::Level::kWarning, "bad_message", sp_id,
                   NumberOf(sp_id) + " sent a request without a tx id", true);
  }
  log_.OnReceived(request);
  if (undecided_bytes() + request.bytes() > options_.inflight_bytes_max) {
    request.refusal = {"the primary is overloaded (inflight_bytes_max)"};
    request.rows.Clear();
    request.write_set.clear();
    request.uses.Clear();
    request.uses_bytes = 0;
  }
  if (request.refusal.reason.empty()) {
    if (!intake_.KnowsTables(request)) {
      waiting_bytes_ += request.bytes();
      log_.OnParked(request.tx_id, sp_id, RequestLog::ParkedFor::kTables, now_us);
      waiting_requests_.Add(AskHousekeeper(false, false), std::move(request));
      return;
    }
    intake_.Judge(&request);
  }
  Admit(std::move(request), now_us);
}

void Core::OnAck(SpId sp_id, GlobalT watermark) {
  acknowledgements_.OnAck(sp_id, std::min(watermark, closed_t()));
  AddStreamActions(streams_.OnApplied(sp_id, watermark));
}

void Core::OnStreamRequest(SpId sp_id, const proto::StreamRequest& request) {
  EndStream(sp_id);
  if (request.with_copy()) {
    acknowledgements_.OnJoin(sp_id, closed_t());
    waiting_joins_[sp_id] = AskHousekeeper(false, false);
    return;
  }
  if (request.from() > closed_t()) {
    return Refuse(sp_id, proto::Refused::UNSPECIFIED,
                  "the semi-primary stands at " + std::to_string(request.from()) + ", the primary only at " +
                      std::to_string(closed_t()) + ": the primary's database is an older copy");
  }
  if (request.from() < truncated_t_) {
    return Refuse(sp_id, proto::Refused::LOG_TRUNCATED,
                  "the log begins after " + std::to_string(truncated_t_) + ": join again");
  }
  AddNote(Note::Level::kInfo, "sp_streams", sp_id,
          NumberOf(sp_id) + " streams from " + std::to_string(request.from()) + " to " +
              std::to_string(closed_t()));
  AddStreamActions(streams_.StartFromLog(sp_id, connections_.IncarnationOf(sp_id), request.from()));
}

void Core::OnOutcomeRequest(SpId sp_id, const proto::OutcomeRequest& request) {
  const auto tx_id = TxId::FromBytes(request.tx_id());
  if (!tx_id || stopping_) return;
  decisions_.OnOutcomeRequest();
  if (auto parked = holds_.TakeParked(*tx_id)) CertifyParked(std::move(*parked));
  if (auto parked = reservations_.TakeParked(*tx_id)) CertifyParked(std::move(*parked));
  scheduler_.RequestOutcome(*tx_id, sp_id);
}

void Core::AddReservations(SpId sp_id, std::int64_t now_us, proto::HeartbeatReply* reply) const {
  for (const Reservations::InForce& one : reservations_.in_force()) {
    if (one.sp_id != sp_id || reply->reservations_size() == kToldReservationsMax) continue;
    proto::Reservation* reservation = reply->add_reservations();
    reservation->set_table_id(one.lost.table_id);
    reservation->set_key(one.lost.key);
    reservation->set_keys(static_cast<std::uint32_t>(one.keys));
    reservation->set_age_us(now_us - one.since_us);
    reservation->set_waiting(static_cast<std::uint32_t>(one.waiting));
  }
}

void Core::AddStandstill(std::int64_t now_us, proto::HeartbeatReply* reply) const {
  const auto& reason = standstill_.reason();
  if (!reason) return;
  reply->mutable_standstill()->set_why(reason->text);
  reply->mutable_standstill()->set_age_us(reason->age_us(now_us));
}

void Core::OnHeartbeat(SpId sp_id, const proto::Heartbeat& heartbeat, std::int64_t now_us) {
  proto::ToSemiPrimary message;
  message.mutable_heartbeat_reply()->set_sent_us(heartbeat.sent_us());
  message.mutable_heartbeat_reply()->set_closed_t(closed_t());
  AddReservations(sp_id, now_us, message.mutable_heartbeat_reply());
  AddStandstill(now_us, message.mutable_heartbeat_reply());
  SendTo(sp_id, &message);
  const auto copied_rows =
      heartbeat.has_copied_rows() ? std::optional<std::int64_t>(heartbeat.copied_rows()) : std::nullopt;
  round_trips_.Set(sp_id, heartbeat.rtt_us());
  AddStreamActions(streams_.OnApplied(sp_id, heartbeat.applied()));
  AddStreamActions(streams_.OnCopied(sp_id, copied_rows));
}

void Core::OnLossReport(SpId sp_id, const proto::LossReport& report) {
  const std::string wrong = lost_key_reports_.Add(sp_id, report);
  if (wrong.empty()) return;
  AddNote(Note::Level::kWarning, "bad_message", sp_id,
          NumberOf(sp_id) + " sent a report of losses that is dropped: " + wrong, true);
}

void Core::OnLost(SpId sp_id, proto::Lost* message, std::int64_t now_us) {
  CertifyRequest request;
  request.sp_id = sp_id;
  request.rows = std::move(*message->mutable_keys());
  request.uses = std::move(*message->mutable_uses());
  reservations_.OnLost(request, ToConflict(message->conflict()), now_us);
}

void Core::OnHold(SpId sp_id, const proto::Hold& message) {
  if (stopping_) return;
  holds_.Ask(
      {.sp_id = sp_id,
       .hold_id = message.hold_id(),
       .transaction = message.transaction(),
       .table_ids = {message.table_ids().begin(), message.table_ids().end()},
       .timeout_us = std::min(message.timeout_ms() * std::int64_t{1000}, options_.hold_timeout_max_us)});
  GoOnWithHolds();
}

void Core::Admit(CertifyRequest request, std::int64_t now_us) {
  // Who waits for another semi-primary must not take all memory from those that need not.
  const bool may_wait = undecided_bytes() + request.bytes() <= options_.inflight_bytes_max / 2;
  if (may_wait && (ParkByHold(&request) || ParkByReservation(&request, now_us))) return;
  Certify(std::move(request));
}

bool Core::ParkByHold(CertifyRequest* request) {
  const TxId tx_id = request->tx_id;
  const SpId sp_id = request->sp_id;
  if (!holds_.Park(request)) return false;
  log_.OnParked(tx_id, sp_id, RequestLog::ParkedFor::kHold, now_us_);
  return true;
}

bool Core::ParkByReservation(CertifyRequest* request, std::int64_t now_us) {
  const TxId tx_id = request->tx_id;
  const SpId sp_id = request->sp_id;
  if (!reservations_.Park(request, now_us)) return false;
  log_.OnParked(tx_id, sp_id, RequestLog::ParkedFor::kReservation, now_us);
  return true;
}

void Core::Certify(CertifyRequest request) {
  if (!request.refusal.reason.empty() && !request.refusal.older_catalog) log_.OnRefused(request);
  request.admitted_us = now_us_;
  scheduler_.Certify(std::move(request));
}

}  // namespace psp::primary
