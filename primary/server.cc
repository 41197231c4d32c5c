#include "primary/server.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "common/clock.h"

namespace psp {
namespace {

constexpr int kWaitMs = 100;
constexpr std::int64_t kTickUs = 1'000'000;
constexpr std::int64_t kPurgeUs = 60'000'000;
constexpr std::int64_t kStopUs = 10'000'000;
constexpr std::int64_t kLingerMs = 1000;

// Room for a message's envelope and snapshot besides the write-set.
constexpr std::int64_t kEnvelopeBytes = 1 << 20;

std::vector<RegisteredSp> ToConnections(const std::vector<RegistryRow>& registry) {
  std::vector<RegisteredSp> all;
  all.reserve(registry.size());
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
  const std::array fds = {executors_.fd(), recoverer_.fd(), housekeeper_.fd(), signals_->fd(),
                          usurped_wake_up_.fd()};
  const auto [decided, recovered, reported, signalled, usurped] = router_.Wait(fds, kWaitMs);
  const std::int64_t now_us = MonotonicUs();
  if (signalled && signals_->Take() && stop_by_us_ == 0) {
    spdlog::info("stopping: {} transactions are being decided", scheduler_.transactions());
    stop_by_us_ = now_us + kStopUs;
  }
  TakeMessages();
  if (decided) TakeBatchResults();
  if (recovered) TakeRecovererResults();
  if (reported) TakeHouseReports();
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
