#include "primary/core.h"

#include <algorithm>
#include <utility>

namespace psp {
namespace {

constexpr std::int64_t kNextPieceUs = 100'000;  // while there is more to remove: batches come in between

std::vector<RegisteredSp> ToConnections(const std::vector<RegistryRow>& registry) {
  std::vector<RegisteredSp> all;
  all.reserve(registry.size());
  for (const RegistryRow& row : registry) all.push_back({row.sp_id, row.name, row.released, row.acked_t});
  return all;
}

proto::Conflict ToConflict(const LostKey& lost) {
  proto::Conflict conflict;
  conflict.set_table_id(lost.table_id);
  conflict.set_key(lost.key);
  conflict.set_winner_t(lost.winner_t);
  conflict.set_winner_sp_id(lost.winner_sp_id);
  return conflict;
}

}  // namespace

PrimaryCore::PrimaryCore(const Options& options, Start start)
    : options_(options),
      epoch_(start.epoch),
      truncated_t_(start.truncated_t),
      connections_({std::move(start.cluster_id), start.epoch, options.heartbeat_timeout_us,
                    std::move(start.epochs), std::move(start.kept)}),
      intake_(options.write_set_bytes_max, std::move(start.tables)),
      scheduler_(options.scheduler, start.closed_t),
      streams_(options.streams, start.epoch, start.closed_t) {
  connections_.SetRegistry(ToConnections(start.registry));
  for (const RegistryRow& row : start.registry) {
    if (row.join_t && !row.released) acknowledgements_.Restore(row.sp_id, *row.join_t);
  }
}

PrimaryCore::Actions PrimaryCore::TakeActions() { return std::exchange(actions_, {}); }

void PrimaryCore::OnUnreachable(const Send& send) {
  const std::string* route = connections_.RouteOf(send.sp_id);
  if (route != nullptr && *route == send.route) Forget(send.sp_id, "cannot be reached");
}

void PrimaryCore::Tell(const Scheduler::Finished& finished) {
  for (const Scheduler::Decided& decided : finished.decided) TellDecision(decided);
  Publish(finished.committed);
}

void PrimaryCore::TellDecision(const Scheduler::Decided& decided) {
  const Verdict& verdict = decided.verdict;
  proto::ToSemiPrimary message;
  if (decided.asked_to_certify) {
    proto::Decision* decision = message.mutable_decision();
    decision->set_tx_id(decided.tx_id.View().data(), TxId::kSize);
    if (verdict.global_t > 0) {
      decision->set_global_t(verdict.global_t);
    } else if (verdict.lost_key) {
      *decision->mutable_conflict() = ToConflict(*verdict.lost_key);
    } else {
      decision->set_error(verdict.reason);
      decision->set_older_catalog(decided.older_catalog);
    }
    SendTo(decided.sp_id, &message);
  }
  if (decided.asked_for_outcome) {
    proto::OutcomeReply* reply = message.mutable_outcome_reply();
    reply->set_tx_id(decided.tx_id.View().data(), TxId::kSize);
    reply->set_global_t(verdict.global_t);
    if (verdict.lost_key) *reply->mutable_conflict() = ToConflict(*verdict.lost_key);
    SendTo(decided.sp_id, &message);
  }
}

void PrimaryCore::Publish(const std::vector<Scheduler::Committed>& committed) {
  if (committed.empty()) return;
  std::vector<PublishedPtr> published;
  for (const Scheduler::Committed& one : committed) {
    const CertifyRequest& request = *one.request;
    published.push_back(
        Encode(one.global_t, request.tx_id, request.sp_id, request.incarnation, request.write_set));
  }
  Carry(streams_.Publish(published));
}

void PrimaryCore::Carry(Streams::Actions actions) {
  for (Streams::Send& send : actions.sends) {
    if (const std::string* route = connections_.RouteOf(send.sp_id)) {
      actions_.sends.push_back({send.sp_id, *route, std::move(send.message)});
    } else {
      EndStream(send.sp_id);
    }
  }
  for (const ReadLog& work : actions.log_reads) actions_.log_reads.push_back(work);
  for (ReadTable& work : actions.table_reads) actions_.table_reads.push_back(std::move(work));
  for (const SpId sp_id : actions.refused) {
    Refuse(sp_id, proto::Refused::LOG_TRUNCATED, "the log does not reach back so far any more: join again");
  }
}

void PrimaryCore::SendTo(SpId sp_id, proto::ToSemiPrimary* message) {
  if (const std::string* route = connections_.RouteOf(sp_id)) SendOver(*route, sp_id, message);
}

void PrimaryCore::SendOver(const std::string& route, SpId sp_id, proto::ToSemiPrimary* message) {
  message->set_epoch(epoch_);
  actions_.sends.push_back({sp_id, route, message->SerializeAsString()});
}

void PrimaryCore::Refuse(SpId sp_id, proto::Refused::Reason reason, const std::string& text) {
  Say(Note::Level::kWarning, "SP " + std::to_string(sp_id) + " is refused: " + text, true);
  proto::ToSemiPrimary message;
  message.mutable_refused()->set_reason(reason);
  message.mutable_refused()->set_message(text);
  SendTo(sp_id, &message);
  Forget(sp_id, "was refused");
}

void PrimaryCore::Forget(SpId sp_id, const char* why) {
  if (connections_.RouteOf(sp_id) != nullptr) {
    Say(Note::Level::kInfo, "SP " + std::to_string(sp_id) + " " + why);
  }
  connections_.Goodbye(sp_id);
  EndStream(sp_id);
}

void PrimaryCore::EndStream(SpId sp_id) {
  streams_.Forget(sp_id);
  waiting_joins_.erase(sp_id);
}

void PrimaryCore::OnHouseReport(HouseReport report, std::int64_t now_us) {
  truncated_t_ = report.truncated_t;
  if (report.more_to_truncate) next_truncation_us_ = now_us + kNextPieceUs;
  if (report.more_to_sweep) next_sweep_us_ = now_us + kNextPieceUs;
  if (report.more_to_truncate || report.more_to_sweep) {
    next_tick_us_ = std::min(next_tick_us_, now_us + kNextPieceUs);
  }
  connections_.SetRegistry(ToConnections(report.registry));
  for (const SpId sp_id : connections_.RemoveReleased()) Forget(sp_id, "was released");
  for (const RegistryRow& row : report.registry) {
    if (row.released) acknowledgements_.OnReleased(row.sp_id);
  }
  intake_.SetTables(std::move(report.tables));
  for (WaitingHello& waiting : std::exchange(waiting_hellos_, {})) {
    if (waiting.house_number <= report.number) {
      OnHello(waiting.route, waiting.hello, true, now_us);
    } else {
      waiting_hellos_.push_back(std::move(waiting));
    }
  }
  for (auto join = waiting_joins_.begin(); join != waiting_joins_.end();) {
    const auto [sp_id, house_number] = *join++;
    if (house_number > report.number) continue;
    waiting_joins_.erase(sp_id);
    Say(Note::Level::kInfo,
        "SP " + std::to_string(sp_id) + " joins: the table is copied as of " + std::to_string(closed_t()));
    Carry(streams_.Join(sp_id, connections_.IncarnationOf(sp_id)));
  }
  for (WaitingRequest& waiting : std::exchange(waiting_requests_, {})) {
    if (waiting.house_number > report.number) {
      waiting_requests_.push_back(std::move(waiting));
      continue;
    }
    waiting_bytes_ -= waiting.request.write_set.size();
    intake_.RefuseUnknown(&waiting.request);
    Admit(std::move(waiting.request));
  }
}

std::uint64_t PrimaryCore::AskHousekeeper(bool truncate_log, bool sweep) {
  Acknowledgements::News news = acknowledgements_.TakeNews();
  actions_.house_works.push_back(
      {++house_number_, std::move(news.joins), std::move(news.acks), closed_t(), truncate_log, sweep});
  return house_number_;
}

// What was to be written down stays here, and the next tick asks again.
void PrimaryCore::OnHouseWorkRefused(const HouseWork& work) {
  acknowledgements_.PutBack({work.joins, work.acks});
  for (auto& [sp_id, house_number] : waiting_joins_) {
    if (house_number <= work.number) house_number = house_number_ + 1;
  }
}

void PrimaryCore::OnTime(std::int64_t now_us) {
  for (const SpId sp_id : connections_.Expire(now_us)) {
    Say(Note::Level::kWarning, "SP " + std::to_string(sp_id) + " has been silent for " +
                                   std::to_string(options_.heartbeat_timeout_us / 1000) + " ms");
    EndStream(sp_id);
  }
  if (now_us < next_tick_us_) return;
  next_tick_us_ = now_us + options_.housekeeping_interval_us;
  const bool truncate = now_us >= next_truncation_us_;
  const bool sweep = now_us >= next_sweep_us_;
  if (truncate) next_truncation_us_ = now_us + options_.log_truncation_interval_us;
  if (sweep) next_sweep_us_ = now_us + options_.sweep_interval_us;
  AskHousekeeper(truncate, sweep);
}

void PrimaryCore::Say(Note::Level level, std::string text, bool once) {
  actions_.notes.push_back({level, std::move(text), once});
}

}  // namespace psp
