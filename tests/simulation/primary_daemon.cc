#include "tests/simulation/primary_daemon.h"

#include <algorithm>

namespace psp::simulation {

constexpr std::int64_t kTickUs = 100'000;

PrimaryDaemon::PrimaryDaemon(Simulator* sim, const Scenario& scenario, PrimaryDatabase* database,
                             Network* network)
    : sim_(*sim),
      scenario_(scenario),
      database_(*database),
      network_(*network),
      epoch_(database->BeginEpoch()),
      truncated_t_(database->truncated_t()),
      connections_({kClusterId, epoch_, kHeartbeatTimeoutUs}),
      intake_(1 << 20, {1, 2, 3}),
      scheduler_({scenario.batch_transactions_max, 1 << 20}, database->closed_t()),
      streams_({scenario.message_bytes_max, scenario.outstanding_bytes_max, scenario.recent_bytes_max},
               epoch_, database->closed_t()) {
  connections_.SetRegistry(database_.Registry());
  network_.to_primary = [this](const std::string& route, const std::string& bytes) {
    OnMessage(route, bytes);
  };
  sim_.Trace("primary: epoch ", epoch_, " begins at ", closed_t());
  Tick();
}

PrimaryDaemon::~PrimaryDaemon() {
  network_.to_primary = nullptr;
  if (scenario_.mutation == Mutation::kDecisionBeforeDurable) return;
  for (const auto& [batch_id, batch] : running_) {
    if (sim_.Chance(50)) database_.Decide(batch);
  }
}

void PrimaryDaemon::OnMessage(const std::string& route, const std::string& bytes) {
  proto::ToPrimary message;
  if (!message.ParseFromString(bytes)) return sim_.Violation("a malformed message arrived at the primary");
  if (message.has_hello()) return OnHello(route, message.hello());
  const auto sp_id = connections_.Heard(route, message.epoch(), sim_.now_us());
  if (!sp_id) {
    network_.SendToSp(route, Welcome(true).SerializeAsString());
    return;
  }
  switch (message.body_case()) {
    case proto::ToPrimary::kCertify:
      OnCertify(*sp_id, message.mutable_certify());
      break;
    case proto::ToPrimary::kAck:
      acknowledgements_.OnAck(*sp_id, std::min(message.ack().watermark(), streams_.closed_t()));
      OnApplied(*sp_id, message.ack().watermark());
      break;
    case proto::ToPrimary::kHeartbeat:
      OnHeartbeat(*sp_id, message.heartbeat());
      break;
    case proto::ToPrimary::kRecover:
      OnRecover(*sp_id, message.recover().from());
      break;
    case proto::ToPrimary::kOutcomeRequest:
      scheduler_.RequestOutcome(*TxId::FromBytes(message.outcome_request().tx_id()), *sp_id);
      break;
    default:
      sim_.Violation("SP ", *sp_id, " sent a message of unknown kind");
  }
  Dispatch();
}

void PrimaryDaemon::OnHello(const std::string& route, const proto::Hello& hello) {
  const auto answer = connections_.Hello(route, hello, truncated_t_, true, sim_.now_us());
  proto::ToSemiPrimary message = Welcome(false);
  if (answer.kind != Connections::HelloAnswer::Kind::kWelcome) {
    *message.mutable_refused() = answer.refused;
  } else {
    streams_.Forget(hello.sp_id());
    sent_.erase(hello.sp_id());
  }
  network_.SendToSp(route, message.SerializeAsString());
}

proto::ToSemiPrimary PrimaryDaemon::Welcome(bool say_hello) const {
  proto::ToSemiPrimary message;
  message.set_epoch(epoch_);
  message.mutable_welcome()->set_closed_t(streams_.closed_t());
  message.mutable_welcome()->set_oldest_log_t(truncated_t_);
  message.mutable_welcome()->set_say_hello(say_hello);
  return message;
}

void PrimaryDaemon::OnCertify(SpId sp_id, proto::Certify* message) {
  CertifyRequest request;
  if (!intake_.Parse(sp_id, connections_.IncarnationOf(sp_id), message, &request) ||
      !request.refusal.empty()) {
    return sim_.Violation("SP ", sp_id, " sent a malformed request");
  }
  scheduler_.Certify(std::move(request));
}

void PrimaryDaemon::OnRecover(SpId sp_id, GlobalT from_t) {
  if (from_t > streams_.closed_t()) {
    return sim_.Violation("SP ", sp_id, " stands at ", from_t, ", the primary at ", streams_.closed_t());
  }
  if (from_t < truncated_t_) return Refuse(sp_id, proto::Refused::LOG_TRUNCATED);
  sim_.Trace("primary: SP ", sp_id, " recovers from ", from_t);
  sent_[sp_id] = {true, from_t, 0};
  Carry(streams_.Recover(sp_id, connections_.IncarnationOf(sp_id), from_t));
}

void PrimaryDaemon::OnHeartbeat(SpId sp_id, const proto::Heartbeat& heartbeat) {
  proto::ToSemiPrimary message;
  message.mutable_heartbeat_reply()->set_closed_t(streams_.closed_t());
  SendTo(sp_id, &message);
  OnApplied(sp_id, heartbeat.applied());
}

void PrimaryDaemon::OnApplied(SpId sp_id, GlobalT applied_t) {
  sent_[sp_id].applied_t = std::max(sent_[sp_id].applied_t, applied_t);
  Carry(streams_.OnApplied(sp_id, applied_t));
}

void PrimaryDaemon::Dispatch() {
  while (running_.size() < scenario_.executors) {
    const auto batch = scheduler_.NextBatch();
    if (!batch) return;
    RunBatch(*batch);
  }
}

void PrimaryDaemon::RunBatch(const Batch& batch) {
  running_[batch.batch_id] = batch;
  for (const BatchItem& item : batch.items) {
    if (item.global_t == 0) continue;
    for (const proto::Row& row : item.request->rows.rows()) {
      if (!running_keys_.insert({row.table_id(), row.key()}).second) {
        sim_.Violation("two transactions under way hold the same key");
      }
    }
  }
  if (scenario_.mutation == Mutation::kDecisionBeforeDurable) {
    std::vector<Verdict> promised;
    for (const BatchItem& item : batch.items)
      promised.push_back({item.global_t, std::nullopt, item.abort_reason});
    const std::int64_t delay_us = sim_.Between(100, 1'000);
    sim_.After(delay_us, alive_, [this, promised, id = batch.batch_id] { OnBatchResult({id, promised}); });
    sim_.After(delay_us + 5'000, alive_, [this, batch] { database_.Decide(batch); });
    return;
  }
  sim_.After(sim_.Between(100, 8'000), alive_, [this, id = batch.batch_id] { CommitBatch(id); });
}

void PrimaryDaemon::CommitBatch(std::uint64_t batch_id) {
  const Batch batch = running_.at(batch_id);
  const bool connection_lost = sim_.Chance(5);
  if (connection_lost && sim_.Chance(50)) {  // before the commit
    sim_.After(sim_.Between(1'000, 50'000), alive_, [this, batch_id] { CommitBatch(batch_id); });
    return;
  }
  BatchResult result{batch_id, database_.Decide(batch)};
  if (connection_lost) {  // in doubt: asked again, and psp.tx_log knows
    sim_.After(sim_.Between(1'000, 50'000), alive_, [this, batch_id] { CommitBatch(batch_id); });
    return;
  }
  sim_.After(sim_.Between(10, 200), alive_, [this, result = std::move(result)] { OnBatchResult(result); });
}

void PrimaryDaemon::OnBatchResult(const BatchResult& result) {
  for (const BatchItem& item : running_.at(result.batch_id).items) {
    if (item.global_t == 0) continue;
    for (const proto::Row& row : item.request->rows.rows()) running_keys_.erase({row.table_id(), row.key()});
  }
  running_.erase(result.batch_id);
  const Scheduler::Finished finished = scheduler_.Finish(result);
  Dispatch();
  for (const Scheduler::Decided& decided : finished.decided) Tell(decided);
  Publish(finished.committed);
}

void PrimaryDaemon::Tell(const Scheduler::Decided& decided) {
  const Verdict& verdict = decided.verdict;
  sim_.Trace("primary: ", decided.tx_id.ToText(), " of SP ", decided.sp_id, " gets ", verdict.global_t);
  told_.insert(decided.tx_id);
  proto::ToSemiPrimary message;
  if (decided.asked_to_certify) {
    proto::Decision* decision = message.mutable_decision();
    decision->set_tx_id(decided.tx_id.ToBytes());
    if (verdict.global_t > 0) {
      decision->set_global_t(verdict.global_t);
    } else if (verdict.lost_key) {
      decision->mutable_conflict()->set_table_id(verdict.lost_key->table_id);
      decision->mutable_conflict()->set_key(verdict.lost_key->key);
      decision->mutable_conflict()->set_winner_t(verdict.lost_key->winner_t);
      decision->mutable_conflict()->set_winner_sp_id(verdict.lost_key->winner_sp_id);
    } else {
      decision->set_error(verdict.reason);
    }
    SendTo(decided.sp_id, &message);
  }
  if (decided.asked_for_outcome) {
    message.mutable_outcome_reply()->set_tx_id(decided.tx_id.ToBytes());
    message.mutable_outcome_reply()->set_global_t(verdict.global_t);
    SendTo(decided.sp_id, &message);
  }
}

void PrimaryDaemon::Publish(const std::vector<Scheduler::Committed>& committed) {
  if (committed.empty()) return;
  std::vector<PublishedPtr> published;
  for (const Scheduler::Committed& one : committed) {
    const CertifyRequest& request = *one.request;
    published.push_back(
        Encode(one.global_t, request.tx_id, request.sp_id, request.incarnation, request.write_set));
  }
  Carry(streams_.Publish(published));
}

void PrimaryDaemon::Carry(Streams::Actions actions) {
  for (const Streams::Send& send : actions.sends) {
    CheckOrder(send.sp_id, send.message);
    const std::string* route = connections_.RouteOf(send.sp_id);
    if (route == nullptr || !network_.SendToSp(*route, send.message)) Forget(send.sp_id);
  }
  for (const ReadLog& work : actions.log_reads) {
    // What the statement reads, and when its result comes, are two moments.
    sim_.After(sim_.Between(50, 3'000), alive_, [this, work] {
      sim_.After(sim_.Between(50, 3'000), alive_,
                 [this, chunk = database_.Read(work)] { Carry(streams_.OnLogChunk(chunk)); });
    });
  }
  for (const SpId sp_id : actions.refused) Refuse(sp_id, proto::Refused::LOG_TRUNCATED);
}

// The stream's chain, and each decision before the marker of its transaction.
void PrimaryDaemon::CheckOrder(SpId sp_id, const std::string& bytes) {
  proto::ToSemiPrimary message;
  if (!message.ParseFromString(bytes) || !message.has_replicate() || message.epoch() != epoch_) {
    return sim_.Violation("the stream of SP ", sp_id, " has something that is no Replicate of this epoch");
  }
  const proto::Replicate& replicate = message.replicate();
  Sent& sent = sent_[sp_id];
  // A stream that begins below what the SP has told to have may skip that.
  const bool skips = replicate.from_t() > sent.closed_t && replicate.from_t() <= sent.applied_t;
  if (sent.has_stream && replicate.from_t() != sent.closed_t && !skips) {
    sim_.Violation("SP ", sp_id, ": stream goes on at ", replicate.from_t(), " after ", sent.closed_t);
  }
  GlobalT last_t = replicate.from_t();
  for (const proto::Transaction& transaction : replicate.transactions()) {
    if (transaction.global_t() <= last_t || transaction.global_t() > replicate.closed_t()) {
      sim_.Violation("SP ", sp_id, ": ", transaction.global_t(), " is out of order");
    }
    last_t = transaction.global_t();
    if (transaction.has_write_set()) continue;
    if (transaction.sp_id() != sp_id || !told_.contains(*TxId::FromBytes(transaction.tx_id()))) {
      sim_.Violation("SP ", sp_id, ": the marker of ", last_t, " comes before its decision");
    }
  }
  sent.has_stream = true;
  sent.closed_t = replicate.closed_t();
}

void PrimaryDaemon::SendTo(SpId sp_id, proto::ToSemiPrimary* message) {
  message->set_epoch(epoch_);
  const std::string* route = connections_.RouteOf(sp_id);
  if (route != nullptr && !network_.SendToSp(*route, message->SerializeAsString())) Forget(sp_id);
}

void PrimaryDaemon::Refuse(SpId sp_id, proto::Refused::Reason reason) {
  proto::ToSemiPrimary message;
  message.mutable_refused()->set_reason(reason);
  SendTo(sp_id, &message);
  Forget(sp_id);
}

void PrimaryDaemon::Forget(SpId sp_id) {
  connections_.Goodbye(sp_id);
  streams_.Forget(sp_id);
  sent_.erase(sp_id);
}

// Silent SPs, and the housekeeper's work.
void PrimaryDaemon::Tick() {
  for (const SpId sp_id : connections_.Expire(sim_.now_us())) streams_.Forget(sp_id);
  database_.Acknowledge(acknowledgements_.TakeNew());
  if (sim_.Chance(50)) database_.Truncate(acknowledgements_.JoinersNeedLogAfter());
  truncated_t_ = database_.truncated_t();
  connections_.SetRegistry(database_.Registry());
  sim_.After(kTickUs, alive_, [this] { Tick(); });
}

}  // namespace psp::simulation
