#include "primary/server.h"

#include <algorithm>
#include <chrono>

#include "common/clock.h"

namespace psp {
namespace {

constexpr std::int64_t kTickUs = 1'000'000;
constexpr std::int64_t kPurgeUs = 60'000'000;
constexpr std::int64_t kStopUs = 10'000'000;
constexpr std::int64_t kLingerMs = 1000;
constexpr std::size_t kWaitingHellosMax = 1000;

// Room for a message's envelope and snapshot besides the write-set.
constexpr std::int64_t kEnvelopeBytes = 1 << 20;

std::vector<RegisteredSp> ToConnections(const std::vector<RegistryRow>& registry) {
  std::vector<RegisteredSp> all;
  for (const RegistryRow& row : registry) all.push_back({row.sp_id, row.name, row.released, row.acked_t});
  return all;
}

SocketOptions ToSocketOptions(const PrimarySettings& settings) {
  return {.message_bytes_max = settings.write_set_bytes_max + kEnvelopeBytes,
          .heartbeat_interval_ms = settings.heartbeat_interval_ms,
          .heartbeat_timeout_ms = settings.heartbeat_timeout_ms};
}

std::size_t Size(std::int64_t number) { return static_cast<std::size_t>(number); }

}  // namespace

Server::Server(const PrimarySettings& settings, PrimaryState state, StopSignals* signals)
    : settings_(settings),
      epoch_(state.epoch),
      signals_(signals),
      truncated_t_(state.truncated_t),
      connections_({state.cluster_id, state.epoch, settings.heartbeat_timeout_ms * 1000}),
      intake_(Size(settings.write_set_bytes_max), state.table_ids),
      scheduler_({Size(settings.batch_transactions_max), Size(settings.batch_bytes_max)}, state.closed_t),
      streams_({Size(settings.replicate_bytes_max), Size(settings.stream_bytes_max),
                Size(settings.recent_bytes_max)},
               state.epoch, state.closed_t),
      router_(context_, settings.listen, ToSocketOptions(settings)),
      executors_({settings.database, state.epoch, Size(settings.executors)},
                 [this] {
                   usurped_ = true;
                   usurped_wake_up_.Notify();
                 }),
      recoverer_(settings.database, state.epoch),
      housekeeper_(
          std::move(state.session),
          [epoch = state.epoch](PgSession& session) { return TakeLockAgain(session, epoch); },
          settings.tx_log_retention_s,
          [this] {
            usurped_ = true;
            usurped_wake_up_.Notify();
          }) {
  connections_.SetRegistry(ToConnections(state.registry));
}

bool Server::Run() {
  while (!usurped_) {
    const std::int64_t now_us = MonotonicUs();
    if (MayStop(now_us)) break;
    Turn();
  }
  if (usurped_) return false;
  if (!scheduler_.idle()) spdlog::warn("{} transactions are left undecided", scheduler_.transactions());
  router_.LingerOnClose(kLingerMs);
  return true;
}

bool Server::MayStop(std::int64_t now_us) const {
  return stop_by_us_ != 0 && (scheduler_.idle() || now_us >= stop_by_us_);
}

void Server::Turn() {
  zmq::pollitem_t items[] = {router_.poll_item(),
                             {nullptr, executors_.fd(), ZMQ_POLLIN, 0},
                             {nullptr, recoverer_.fd(), ZMQ_POLLIN, 0},
                             {nullptr, housekeeper_.fd(), ZMQ_POLLIN, 0},
                             {nullptr, signals_->fd(), ZMQ_POLLIN, 0},
                             {nullptr, usurped_wake_up_.fd(), ZMQ_POLLIN, 0}};
  zmq::poll(items, std::size(items), std::chrono::milliseconds(100));
  const std::int64_t now_us = MonotonicUs();
  if (signals_->Take() && stop_by_us_ == 0) {
    spdlog::info("stopping: {} transactions are being decided", scheduler_.transactions());
    stop_by_us_ = now_us + kStopUs;
  }
  TakeMessages();
  TakeBatchResults();
  TakeRecovererResults();
  TakeHouseReports();
  DispatchBatches();
  Tick(now_us);
}

void Server::TakeMessages() {
  // So many at a time: whoever sends without end must not keep decisions from being told.
  constexpr int kMessagesMax = 1000;
  std::string route;
  proto::ToPrimary message;
  for (int i = 0; i < kMessagesMax && router_.Receive(&route, &message); ++i) OnMessage(route, &message);
}

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
  const std::size_t bytes_max = Size(settings_.inflight_bytes_max);
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

void Server::Admit(CertifyRequest request) {
  if (!request.refusal.empty() && logged_.First(request.refusal)) {
    spdlog::warn("a transaction of SP {} is refused: {}", request.sp_id, request.refusal);
  }
  scheduler_.Certify(std::move(request));
}

void Server::OnOutcomeRequest(SpId sp_id, const proto::OutcomeRequest& request) {
  const auto tx_id = TxId::FromBytes(request.tx_id());
  if (!tx_id || stop_by_us_ != 0) return;
  scheduler_.RequestOutcome(*tx_id, sp_id);
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

void Server::DispatchBatches() {
  while (executors_.free() > 0) {
    auto batch = scheduler_.NextBatch();
    if (!batch) return;
    executors_.Submit(std::move(*batch));
  }
}

void Server::TakeBatchResults() {
  for (const BatchResult& result : executors_.TakeResults()) {
    const Scheduler::Finished finished = scheduler_.Finish(result);
    // The next batch first: PostgreSQL works while we tell.
    DispatchBatches();
    for (const Scheduler::Decided& decided : finished.decided) Tell(decided);
    Publish(finished.committed);
  }
}

void Server::Tell(const Scheduler::Decided& decided) {
  const Verdict& verdict = decided.verdict;
  proto::ToSemiPrimary message;
  if (decided.asked_to_certify) {
    proto::Decision* decision = message.mutable_decision();
    decision->set_tx_id(decided.tx_id.View().data(), TxId::kSize);
    if (verdict.global_t > 0) {
      decision->set_global_t(verdict.global_t);
    } else if (verdict.lost_key) {
      proto::Conflict* conflict = decision->mutable_conflict();
      conflict->set_table_id(verdict.lost_key->table_id);
      conflict->set_key(verdict.lost_key->key);
      conflict->set_winner_t(verdict.lost_key->winner_t);
      conflict->set_winner_sp_id(verdict.lost_key->winner_sp_id);
    } else {
      decision->set_error(verdict.reason);
    }
    SendTo(decided.sp_id, &message);
  }
  if (decided.asked_for_outcome) {
    message.mutable_outcome_reply()->set_tx_id(decided.tx_id.View().data(), TxId::kSize);
    message.mutable_outcome_reply()->set_global_t(verdict.global_t);
    SendTo(decided.sp_id, &message);
  }
}

void Server::Publish(const std::vector<Scheduler::Committed>& committed) {
  if (committed.empty()) return;
  std::vector<PublishedPtr> published;
  for (const Scheduler::Committed& one : committed) {
    const CertifyRequest& request = *one.request;
    published.push_back(
        Encode(one.global_t, request.tx_id, request.sp_id, request.incarnation, request.write_set));
  }
  Carry(streams_.Publish(published));
}

void Server::TakeRecovererResults() {
  for (RecovererResult& result : recoverer_.TakeResults()) {
    if (auto* table = std::get_if<TableChunk>(&result)) {
      Carry(streams_.OnTableChunk(std::move(*table)));
    } else {
      Carry(streams_.OnLogChunk(std::get<LogChunk>(result)));
    }
  }
}

void Server::Carry(Streams::Actions actions) {
  for (Streams::Send& send : actions.sends) {
    const std::string* route = connections_.RouteOf(send.sp_id);
    if (route == nullptr || router_.SendBytes(*route, send.message) == SendOutcome::kUnreachable) {
      Forget(send.sp_id, "cannot be reached");
    }
  }
  for (const ReadLog& work : actions.log_reads) recoverer_.Submit(work);
  for (ReadTable& work : actions.table_reads) recoverer_.Submit(std::move(work));
  for (const SpId sp_id : actions.refused) {
    Refuse(sp_id, proto::Refused::LOG_TRUNCATED, "the log does not reach back so far any more: join again");
  }
}

void Server::SendTo(SpId sp_id, proto::ToSemiPrimary* message) {
  message->set_epoch(epoch_);
  const std::string* route = connections_.RouteOf(sp_id);
  if (route != nullptr && router_.Send(*route, *message) == SendOutcome::kUnreachable) {
    Forget(sp_id, "cannot be reached");
  }
}

void Server::Refuse(SpId sp_id, proto::Refused::Reason reason, const std::string& text) {
  if (logged_.First(text)) spdlog::warn("SP {} is refused: {}", sp_id, text);
  proto::ToSemiPrimary message;
  message.mutable_refused()->set_reason(reason);
  message.mutable_refused()->set_message(text);
  SendTo(sp_id, &message);
  Forget(sp_id, "was refused");
}

void Server::Forget(SpId sp_id, const char* why) {
  if (connections_.RouteOf(sp_id) != nullptr) spdlog::info("SP {} {}", sp_id, why);
  connections_.Goodbye(sp_id);
  streams_.Forget(sp_id);
}

void Server::TakeHouseReports() {
  for (HouseReport& report : housekeeper_.TakeReports()) {
    truncated_t_ = report.truncated_t;
    connections_.SetRegistry(ToConnections(report.registry));
    for (const SpId sp_id : connections_.RemoveReleased()) Forget(sp_id, "was released");
    for (const RegistryRow& row : report.registry) {
      if (row.released) acknowledgements_.OnReleased(row.sp_id);
    }
    intake_.SetTableIds(std::move(report.table_ids));
    for (WaitingHello& waiting : std::exchange(waiting_hellos_, {})) {
      if (waiting.house_number <= report.number) {
        OnHello(waiting.route, waiting.hello, true);
      } else {
        waiting_hellos_.push_back(std::move(waiting));
      }
    }
    for (WaitingRequest& waiting : std::exchange(waiting_requests_, {})) {
      if (waiting.house_number > report.number) {
        waiting_requests_.push_back(std::move(waiting));
        continue;
      }
      waiting_bytes_ -= waiting.request.write_set.size();
      const std::uint32_t unknown = intake_.UnknownTable(waiting.request);
      if (unknown != 0)
        waiting.request.refusal = "the primary does not know table_id " + std::to_string(unknown);
      Admit(std::move(waiting.request));
    }
  }
}

std::uint64_t Server::AskHousekeeper(bool truncate_log, bool purge_tx_log) {
  HouseWork work{++house_number_, acknowledgements_.TakeNew(), acknowledgements_.JoinersNeedLogAfter(),
                 truncate_log, purge_tx_log};
  // When it has too much to do, the acknowledgements stay here and the next tick asks again.
  if (!housekeeper_.TrySubmit(work)) {
    for (const auto& [sp_id, acked_t] : work.acks) acknowledgements_.OnAck(sp_id, acked_t);
  }
  return house_number_;
}

void Server::Tick(std::int64_t now_us) {
  for (const SpId sp_id : connections_.Expire(now_us)) {
    spdlog::warn("SP {} has been silent for {} ms", sp_id, settings_.heartbeat_timeout_ms);
    streams_.Forget(sp_id);
  }
  if (now_us < next_tick_us_) return;
  next_tick_us_ = now_us + kTickUs;
  const bool truncate = now_us >= next_truncation_us_;
  const bool purge = now_us >= next_purge_us_;
  if (truncate) next_truncation_us_ = now_us + settings_.log_truncation_interval_ms * 1000;
  if (purge) next_purge_us_ = now_us + kPurgeUs;
  AskHousekeeper(truncate, purge);
}

}  // namespace psp
