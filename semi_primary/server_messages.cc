// What the server says to the primary, and what it does with the answers: one function for each message.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "common/clock.h"
#include "common/log.h"
#include "semi_primary/server.h"

namespace psp {
namespace {

constexpr std::int64_t kRecoverAgainUs = 5'000'000;

WriteSetPtr ParseWriteSet(const std::string& bytes) {
  auto write_set = std::make_shared<proto::WriteSet>();
  return write_set->ParseFromString(bytes) ? write_set : nullptr;
}

}  // namespace

void Server::TakeMessages() {
  proto::ToSemiPrimary message;
  while (!fatal_ && primary_.Receive(&message)) {
    heard_us_ = MonotonicUs();
    OnMessage(message);
  }
}

void Server::OnMessage(const proto::ToSemiPrimary& message) {
  if (message.has_welcome()) return OnWelcome(message.epoch(), message.welcome());
  if (message.has_refused()) return OnRefused(message.refused());
  if (epoch_ == 0 || message.epoch() != epoch_) return;
  if (asking_name_ && !message.has_heartbeat_reply()) return;  // it comes again after Welcome
  if (message.has_decision()) {
    const proto::Decision& decision = message.decision();
    if (decision.has_conflict() && AskName(decision.conflict().winner_sp_id())) return;
    return submissions_.OnDecision(decision);
  }
  if (message.has_replicate()) return OnReplicate(message.replicate());
  if (message.has_snapshot_chunk()) return OnSnapshotChunk(message.snapshot_chunk());
  if (message.has_outcome_reply()) {
    const auto tx_id = TxId::FromBytes(message.outcome_reply().tx_id());
    if (tx_id) submissions_.OnOutcomeReply(*tx_id, message.outcome_reply().global_t());
  } else if (message.has_heartbeat_reply()) {
    rtt_ms_ = static_cast<double>(MonotonicUs() - message.heartbeat_reply().sent_us()) / 1000.0;
    closed_t_ = std::max(closed_t_, message.heartbeat_reply().closed_t());
  }
}

void Server::OnWelcome(Epoch epoch, const proto::Welcome& welcome) {
  if (welcome.say_hello()) {
    if (epoch_ != 0) Disconnect("it does not know this semi-primary any more");
    return;
  }
  for (const auto& sp : welcome.semi_primaries()) sp_names_[sp.sp_id()] = sp.name();
  asking_name_ = false;
  if (epoch != epoch_) spdlog::info("connected to the primary, epoch {}", epoch);
  epoch_ = epoch;
  acked_ = -1;
  closed_t_ = welcome.closed_t();
  catch_up_t_ = welcome.closed_t();
  if (welcome.heartbeat_interval_ms() > 0)
    heartbeat_interval_us_ = welcome.heartbeat_interval_ms() * std::int64_t{1000};
  last_error_ = failure_;
  if (generation_ != 0) Recover();
  submissions_.OnConnected();
}

void Server::OnRefused(const proto::Refused& refused) {
  if (last_error_ != refused.message())
    spdlog::error("the primary refuses this semi-primary: {}", refused.message());
  last_error_ = refused.message();
  switch (refused.reason()) {
    case proto::Refused::DUPLICATE_SP:
    case proto::Refused::UNSPECIFIED:
      return;  // Hello is said again
    default:
      fatal_ = true;
  }
}

void Server::OnReplicate(const proto::Replicate& replicate) {
  closed_t_ = std::max(closed_t_, replicate.closed_t());
  if (generation_ == 0 || (joining_ && !copy_received_)) return;
  for (const proto::Transaction& transaction : replicate.transactions()) {
    if (AskName(transaction.sp_id())) return;
  }
  switch (position_.Offer(replicate.from_t(), replicate.closed_t())) {
    case StreamPosition::Verdict::kOld:
      return;
    case StreamPosition::Verdict::kGap:
      if (!recovering_ || MonotonicUs() - recover_us_ > kRecoverAgainUs) Recover();
      return;
    case StreamPosition::Verdict::kTake:
      break;
  }
  recovering_ = false;
  ApplyStep step;
  step.generation = generation_;
  step.closed_t = replicate.closed_t();
  for (const proto::Transaction& transaction : replicate.transactions()) {
    const auto tx_id = TxId::FromBytes(transaction.tx_id());
    WriteSetPtr write_set = transaction.has_write_set() ? ParseWriteSet(transaction.write_set()) : nullptr;
    const bool own = transaction.sp_id() == identity_.sp_id;
    if (!tx_id || (transaction.has_write_set() && !write_set) || (!own && !write_set)) {
      failure_ = last_error_ =
          "the stream has a malformed transaction, global_t " + std::to_string(transaction.global_t());
      spdlog::critical("{}", failure_);
      return;
    }
    step.bytes += transaction.write_set().size();
    if (own) {
      if (!write_set) write_set = submissions_.WriteSetOf(*tx_id);
      submissions_.OnOwnTransaction(*tx_id, transaction.global_t());
    } else {
      submissions_.OnRemoteTransaction(transaction.global_t(), transaction.sp_id(), write_set);
    }
    step.transactions.push_back({transaction.global_t(), *tx_id, own, std::move(write_set)});
  }
  if (behind_since_us_ == 0) behind_since_us_ = MonotonicUs();
  apply_.inbox().Push(std::move(step));
}

void Server::OnSnapshotChunk(const proto::SnapshotChunk& chunk) {
  if (generation_ == 0 || !joining_ || copy_received_) return;
  auto rows = std::make_shared<proto::WriteSet>();
  *rows->mutable_rows() = chunk.rows();
  ApplyStep step;
  step.generation = generation_;
  step.closed_t = chunk.snapshot_t();
  step.copied_rows = std::move(rows);
  step.copy_is_complete = chunk.last();
  step.rows_done = chunk.rows_done();
  step.bytes = chunk.ByteSizeLong();
  apply_.inbox().Push(std::move(step));
  copy_rows_total_ = std::max(chunk.rows_total(), chunk.rows_done());
  recovering_ = false;
  if (!chunk.last()) return;
  copy_received_ = true;
  position_.Reset(chunk.snapshot_t());
}

// True when the name of this semi-primary, which joined after the last Welcome, is being asked for: drop the
// message. Hello makes the primary begin anew, so the message comes again after Welcome. Asked once for each
// number.
bool Server::AskName(SpId sp_id) {
  if (sp_id == 0 || sp_names_.contains(sp_id)) return false;
  sp_names_.emplace(sp_id, std::to_string(sp_id));
  asking_name_ = true;
  SayHello();
  return true;
}

void Server::SayHello() {
  hello_us_ = MonotonicUs();
  proto::ToPrimary message;
  proto::Hello* hello = message.mutable_hello();
  hello->set_cluster_id(identity_.cluster_id);
  hello->set_sp_id(identity_.sp_id);
  hello->set_name(settings_.name);
  hello->set_incarnation(incarnation_);
  hello->set_watermark(watermark_);
  hello->set_protocol_version(kProtocolVersion);
  primary_.Send(message);  // unreachable: it is said again
}

void Server::Disconnect(const char* why) {
  spdlog::warn("lost the primary: {}", why);
  last_error_ = std::string("lost the primary: ") + why;
  epoch_ = 0;
  asking_name_ = false;
  hello_us_ = 0;
  primary_.Reconnect();
  submissions_.OnDisconnected();
}

void Server::Recover() {
  if (!failure_.empty()) return;
  recovering_ = true;
  recover_us_ = MonotonicUs();
  proto::ToPrimary message;
  message.mutable_recover()->set_from(position_.position());
  message.mutable_recover()->set_whole_table(joining_ && !copy_received_);
  Send(&message);
}

void Server::SendHeartbeat(std::int64_t now_us) {
  heartbeat_us_ = now_us;
  proto::ToPrimary message;
  proto::Heartbeat* heartbeat = message.mutable_heartbeat();
  heartbeat->set_sent_us(now_us);
  heartbeat->set_applied(watermark_);
  if (joining_) heartbeat->set_snapshot_rows_stored(copied_rows_);
  Send(&message);
}

// False when there is no connection: everything open is sent again after the next Welcome.
bool Server::Send(proto::ToPrimary* message) {
  if (epoch_ == 0) return false;
  message->set_epoch(epoch_);
  return primary_.Send(*message) == SendOutcome::kSent;
}

}  // namespace psp
