#include "primary/core/core.h"

#include <utility>

namespace psp::primary {
namespace {

std::vector<RegisteredSp> ToConnections(const std::vector<RegistryRow>& registry) {
  std::vector<RegisteredSp> all;
  all.reserve(registry.size());
  for (const RegistryRow& row : registry) all.push_back({row.sp_id, row.name, row.released, row.acked_t});
  return all;
}

}  // namespace

Core::Core(const Options& options, Start start)
    : options_(options),
      epoch_(start.epoch),
      truncated_t_(start.truncated_t),
      hearing_(options.hearing,
               {start.epochs, std::move(start.newest_ts), start.kept, start.truncated_t, start.closed_t}),
      connections_({std::move(start.cluster_id), start.epoch, options.heartbeat_timeout_us,
                    std::move(start.epochs), std::move(start.kept)}),
      intake_(options.write_set_bytes_max, std::move(start.tables)),
      scheduler_(options.scheduler, start.closed_t),
      batch_timing_(options.batch_wait_max_us, round_trips_),
      reservations_(options.reservations, round_trips_),
      standstill_(options.standstill),
      log_(options.logged, [this](SpId sp_id) { return NameOf(sp_id); }),
      streams_(options.streams, start.epoch, start.closed_t),
      schedule_(
          {options.housekeeping_interval_us, options.log_truncation_interval_us, options.sweep_interval_us}) {
  connections_.SetRegistry(ToConnections(start.registry));
  hearing_.OnRegistry(connections_.registry(), 0);
  for (const RegistryRow& row : start.registry) {
    if (row.join_t && !row.released) acknowledgements_.Restore(row.sp_id, *row.join_t);
  }
}

Core::Actions Core::TakeActions() {
  for (Note& note : log_.TakeNotes()) actions_.notes.push_back(std::move(note));
  for (Note& note : hearing_.TakeNotes()) actions_.notes.push_back(std::move(note));
  return std::exchange(actions_, {});
}

std::string Core::NameOf(SpId sp_id) const {
  const auto registered = connections_.registry().find(sp_id);
  return registered == connections_.registry().end() ? std::to_string(sp_id) : registered->second.name;
}

void Core::OnUnreachable(const Send& send) {
  const std::string* route = connections_.RouteOf(send.sp_id);
  if (route != nullptr && *route == send.route) Forget(send.sp_id, "cannot be reached");
}

std::optional<Batch> Core::NextBatch(std::int64_t now_us) {
  if (now_us < batch_timing_.may_go_us()) return std::nullopt;
  std::optional<Batch> batch = scheduler_.NextBatch();
  if (batch) {
    standstill_.OnBatchSent(now_us);
    decisions_.OnBatchSent(batch->batch_id, batch->items.size(), now_us);
    log_.OnBatchSent(*batch, now_us);
  }
  return batch;
}

std::optional<std::int64_t> Core::WaitUntilUs(std::int64_t now_us) const {
  const bool waits = scheduler_.has_ready() && now_us < batch_timing_.may_go_us();
  return waits ? std::optional(batch_timing_.may_go_us()) : std::nullopt;
}

// Before the next batch: what waits was let in under the older catalog.
Scheduler::Finished Core::Finish(const BatchResult& result, std::int64_t now_us) {
  now_us_ = now_us;
  Scheduler::Finished finished = scheduler_.Finish(result);
  finished.batch_id = result.batch_id;
  finished.sent_us = decisions_.TakeSentUs(result.batch_id);
  for (const Scheduler::Committed& one : finished.committed) {
    if (one.request->rows.kind() != proto::ENTRY_SCHEMA_CHANGE) continue;
    intake_.Change(one.request->rows);
    scheduler_.Refuse([this](const CertifyRequest& request) { return intake_.OlderCatalog(request); });
    holds_.EndAllOf(one.request->sp_id);
  }
  GoOnWithHolds();
  return finished;
}

void Core::GoOnWithHolds() {
  for (CertifyRequest& request : holds_.TakeReleased()) CertifyParked(std::move(request));
  const HeldTables* held = holds_.ungranted();
  if (held == nullptr || scheduler_.HasOtherWriter(held->sp_id, held->table_ids)) return;
  holds_.SetGranted();
  SendHoldReply(*held, false);
}

// By today's catalog. It waits for no other hold, so that its COMMIT is answered in time.
void Core::CertifyParked(CertifyRequest request) {
  intake_.Judge(&request);
  Certify(std::move(request));
}

void Core::SendHoldReply(const HeldTables& hold, bool ended) {
  proto::ToSemiPrimary message;
  message.mutable_hold_reply()->set_hold_id(hold.hold_id);
  message.mutable_hold_reply()->set_global_t(scheduler_.newest_commit());
  message.mutable_hold_reply()->set_ended(ended);
  SendTo(hold.sp_id, &message);
}

// A hold that was granted meanwhile must not meet them.
void Core::GoOnWithReservations() {
  for (CertifyRequest& request : reservations_.TakeReleased()) {
    if (!ParkByHold(&request)) CertifyParked(std::move(request));
  }
}

void Core::CountLosses(const Scheduler::Finished& finished, std::int64_t now_us) {
  for (const Scheduler::Committed& one : finished.committed) {
    reservations_.OnCommitted(*one.request, now_us);
  }
  for (const Scheduler::Decided& decided : finished.decided) {
    const auto& conflict = decided.verdict.conflict;
    if (!decided.asked_to_certify || !conflict) continue;
    const CertifyRequest& request = *decided.request;
    if (conflict->winner_sp_id != request.sp_id) reservations_.OnLost(request, *conflict, now_us);
  }
  GoOnWithReservations();
}

void Core::AnnounceDecisions(const Scheduler::Finished& finished, std::int64_t now_us) {
  now_us_ = now_us;
  standstill_.OnDecided(now_us);
  CountLosses(finished, now_us);
  for (const Scheduler::Decided& decided : finished.decided) {
    DecisionCounts::Parts parts;
    if (decided.asked_to_certify) {
      parts = decisions_.OnDecided(decided, finished.sent_us, now_us);
      log_.OnDecided(decided, finished.batch_id, finished.sent_us, now_us);
    }
    if (decided.asked_for_outcome) log_.OnOutcomeTold(decided, now_us);
    SendDecision(decided, parts);
  }
  Publish(finished.committed);
}

void Core::SendDecision(const Scheduler::Decided& decided, const DecisionCounts::Parts& parts) {
  const Verdict& verdict = decided.verdict;
  proto::ToSemiPrimary message;
  if (decided.asked_to_certify) {
    proto::Decision* decision = message.mutable_decision();
    decision->set_tx_id(decided.request->tx_id.View().data(), TxId::kSize);
    decision->set_parked_us(parts.parked_us);
    decision->set_queue_us(parts.queue_us);
    decision->set_certify_us(parts.certify_us);
    if (verdict.global_t > 0) {
      decision->set_global_t(verdict.global_t);
    } else if (verdict.conflict) {
      *decision->mutable_conflict() = ToMessage(*verdict.conflict);
    } else {
      decision->set_error(verdict.reason);
      decision->set_older_catalog(decided.older_catalog);
      decision->set_sqlstate(verdict.sqlstate);
    }
    SendTo(decided.request->sp_id, &message);
  }
  if (decided.asked_for_outcome) {
    proto::OutcomeReply* reply = message.mutable_outcome_reply();
    reply->set_tx_id(decided.request->tx_id.View().data(), TxId::kSize);
    reply->set_global_t(verdict.global_t);
    reply->set_forgotten(verdict.forgotten);
    if (verdict.conflict) *reply->mutable_conflict() = ToMessage(*verdict.conflict);
    SendTo(decided.request->sp_id, &message);
  }
}

void Core::Publish(const std::vector<Scheduler::Committed>& committed) {
  if (committed.empty()) return;
  std::vector<PublishedPtr> published;
  for (const Scheduler::Committed& one : committed) {
    const CertifyRequest& request = *one.request;
    published.push_back(
        Encode(one.global_t, request.tx_id, request.sp_id, request.incarnation, request.write_set));
  }
  AddStreamActions(streams_.Publish(published));
}

void Core::AddStreamActions(Streams::Actions actions) {
  for (Streams::Send& send : actions.sends) {
    if (const std::string* route = connections_.RouteOf(send.sp_id)) {
      actions_.sends.push_back({send.sp_id, *route, std::move(send.message)});
    } else {
      EndStream(send.sp_id);
    }
  }
  for (const ReadLog& work : actions.log_reads) actions_.log_reads.push_back(work);
  for (ReadCopy& work : actions.copy_reads) actions_.copy_reads.push_back(std::move(work));
  for (const SpId sp_id : actions.refused) {
    Refuse(sp_id, proto::Refused::LOG_TRUNCATED, "the log does not reach back so far any more: join again");
  }
}

void Core::SendTo(SpId sp_id, proto::ToSemiPrimary* message) {
  if (const std::string* route = connections_.RouteOf(sp_id)) SendOver(*route, sp_id, message);
}

void Core::SendOver(const std::string& route, SpId sp_id, proto::ToSemiPrimary* message) {
  message->set_epoch(epoch_);
  actions_.sends.push_back({sp_id, route, message->SerializeAsString()});
}

void Core::Refuse(SpId sp_id, proto::Refused::Reason reason, const std::string& text) {
  AddNote(Note::Level::kWarning, "sp_refused", sp_id, "SP " + std::to_string(sp_id) + " is refused: " + text,
          true);
  proto::ToSemiPrimary message;
  message.mutable_refused()->set_reason(reason);
  message.mutable_refused()->set_message(text);
  SendTo(sp_id, &message);
  Forget(sp_id, "was refused");
}

void Core::Forget(SpId sp_id, const char* why) {
  if (connections_.RouteOf(sp_id) != nullptr) {
    AddNote(Note::Level::kInfo, "sp_gone", sp_id, "SP " + std::to_string(sp_id) + " " + why);
  }
  connections_.Goodbye(sp_id);
  EndConnection(sp_id);
}

void Core::EndStream(SpId sp_id) {
  streams_.Forget(sp_id);
  waiting_joins_.erase(sp_id);
}

void Core::EndConnection(SpId sp_id) {
  EndStream(sp_id);
  holds_.EndAllOf(sp_id);
  GoOnWithHolds();
  reservations_.Forget(sp_id);
  round_trips_.Forget(sp_id);
}

void Core::OnHouseReport(HouseReport report, std::int64_t now_us) {
  now_us_ = now_us;
  truncated_t_ = report.truncated_t;
  if (report.log) log_size_ = report.log;
  schedule_.OnReport(report.more_to_truncate, report.more_to_sweep, now_us);
  connections_.SetRegistry(ToConnections(report.registry));
  for (const SpId sp_id : connections_.RemoveReleased()) Forget(sp_id, "was released");
  for (const RegistryRow& row : report.registry) {
    if (row.released) acknowledgements_.OnReleased(row.sp_id);
  }
  hearing_.OnRegistry(connections_.registry(), now_us);
  TakeHearing(now_us);
  intake_.SetTables(std::move(report.tables));
  for (const WaitingHello& waiting : waiting_hellos_.TakeAnswered(report.number)) {
    OnHello(waiting.route, waiting.hello, true, now_us);
  }
  BeginJoins(report.number);
  for (CertifyRequest& request : waiting_requests_.TakeAnswered(report.number)) {
    waiting_bytes_ -= request.bytes();
    intake_.Judge(&request);
    Admit(std::move(request), now_us);
  }
}

void Core::BeginJoins(std::uint64_t report_number) {
  for (auto join = waiting_joins_.begin(); join != waiting_joins_.end();) {
    const auto [sp_id, house_number] = *join++;
    if (house_number > report_number) continue;
    waiting_joins_.erase(sp_id);
    AddNote(
        Note::Level::kInfo, "sp_joins", sp_id,
        "SP " + std::to_string(sp_id) + " joins: the table is copied as of " + std::to_string(closed_t()));
    AddStreamActions(streams_.StartWithCopy(sp_id, connections_.IncarnationOf(sp_id)));
  }
}

std::uint64_t Core::AskHousekeeper(bool truncate_log, bool sweep) {
  Acknowledgements::News news = acknowledgements_.TakeNews();
  actions_.house_works.push_back({.number = ++house_number_,
                                  .joins = std::move(news.joins),
                                  .acks = std::move(news.acks),
                                  .settled_t = closed_t(),
                                  .truncate_log = truncate_log,
                                  .sweep = sweep});
  return house_number_;
}

// The work stays here, and the next tick offers it again.
void Core::OnHouseWorkRefused(const HouseWork& work) {
  acknowledgements_.PutBack({work.joins, work.acks});
  if (!work.presence.empty()) presence_.PutBack();
  lost_key_reports_.PutBack(work.loss_reports);
  for (auto& [sp_id, house_number] : waiting_joins_) {
    if (house_number <= work.number) house_number = house_number_ + 1;
  }
}

void Core::OnTime(std::int64_t now_us) {
  now_us_ = now_us;
  for (const SpId sp_id : connections_.Expire(now_us)) {
    AddNote(Note::Level::kWarning, "sp_silent", sp_id,
            "SP " + std::to_string(sp_id) + " has been silent for " +
                std::to_string(options_.heartbeat_timeout_us / 1000) + " ms");
    EndConnection(sp_id);
  }
  if (const auto expired = holds_.TakeExpired(now_us)) {
    AddNote(Note::Level::kWarning, "hold_expired", expired->sp_id,
            "SP " + std::to_string(expired->sp_id) + " has held tables for " +
                std::to_string(expired->timeout_us / 1000) +
                " ms: writers of the other semi-primaries go on");
    SendHoldReply(*expired, true);
    GoOnWithHolds();
  }
  if (auto note = standstill_.OnTime(now_us)) actions_.notes.push_back(std::move(*note));
  reservations_.OnTime(now_us);
  GoOnWithReservations();
  if (auto line = losses_report_.TakeLine(reservations_, now_us)) {
    AddNote(Note::Level::kInfo, "losses", 0, std::move(*line));
  }
  if (const auto due = schedule_.TakeDue(now_us)) {
    AskHousekeeper(due->truncate_log, due->sweep);
    actions_.house_works.back().presence = presence_.Take(connections_, now_us);
    actions_.house_works.back().losses = losses_report_.TakeStatus(reservations_, now_us);
    actions_.house_works.back().loss_reports = lost_key_reports_.TakeNews();
  }
}

void Core::OnAllRead(std::int64_t now_us) {
  hearing_.OnAllRead(now_us);
  TakeHearing(now_us);
}

std::optional<Standstill::Reason> Core::standstill() const {
  auto reason = hearing_.reason();
  return reason ? reason : standstill_.reason();
}

void Core::AddNote(Note::Level level, std::string_view event, SpId sp_id, std::string text, bool once) {
  Note& note = actions_.notes.emplace_back(Note{level, std::move(text), once, event});
  if (sp_id != 0) note.fields.push_back(LogField::Text("sp", NameOf(sp_id)));
}

}  // namespace psp::primary
