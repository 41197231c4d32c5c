// What the semi-primary says to the primary, and what it does with the answers: one function for each
// message.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "semi_primary/core.h"

namespace psp {
namespace {

WriteSetPtr ParseWriteSet(const std::string& bytes) {
  auto write_set = std::make_shared<proto::WriteSet>();
  return write_set->ParseFromString(bytes) ? write_set : nullptr;
}

// Anything else must neither commit a transaction nor tell that it is aborted.
bool IsDecided(const proto::Decision& decision) {
  return decision.has_global_t() ? decision.global_t() > 0
                                 : decision.outcome_case() != proto::Decision::OUTCOME_NOT_SET;
}

}  // namespace

void SemiPrimaryCore::OnMessage(const proto::ToSemiPrimary& message, std::int64_t now_us) {
  heard_us_ = now_us;
  alone_since_us_ = 0;
  alone_said_ = false;
  if (message.has_welcome()) return OnWelcome(message.epoch(), message.welcome(), now_us);
  if (message.has_refused()) return OnRefused(message.refused().message(), message.refused().reason());
  if (!connected() || message.epoch() != epoch_) return;
  if (message.has_heartbeat_reply()) return OnHeartbeatReply(message.heartbeat_reply(), now_us);
  if (asking_name_) return;  // it comes again after Welcome
  if (message.has_decision()) return OnDecision(message.decision(), now_us);
  if (message.has_replicate()) return OnReplicate(message.replicate(), now_us);
  if (message.has_snapshot_chunk()) return OnSnapshotChunk(message.snapshot_chunk(), now_us);
  if (message.has_outcome_reply()) return OnOutcomeReply(message.outcome_reply(), now_us);
}

void SemiPrimaryCore::OnWelcome(Epoch epoch, const proto::Welcome& welcome, std::int64_t now_us) {
  if (welcome.say_hello()) {
    if (connected()) Disconnect("it does not know this semi-primary any more");
    return;
  }
  // The answer to an older Hello, since when there is more to tell of.
  if (connected() && epoch != epoch_) return Disconnect("it has restarted");
  EpochStarts epochs;
  for (const auto& one : welcome.epochs()) epochs.push_back({one.history(), one.start_t()});
  const std::string lost = HistoryObjection(epochs, newest_t(), HistoryOf(epochs_, newest_t()));
  if (!lost.empty()) return OnRefused(lost, proto::Refused::OTHER_HISTORY);
  if (MayCopyAnew() && copy_received_ &&
      !HistoryObjection(epochs, complete_t_, HistoryOf(epochs_, complete_t_)).empty()) {
    Say(Note::Level::kWarning, "the primary has lost what the copy was waiting for: it is copied again");
    copy_received_ = false;
  }
  for (const auto& sp : welcome.semi_primaries()) sp_names_[sp.sp_id()] = sp.name();
  asking_name_ = false;
  if (epoch != epoch_) Say(Note::Level::kInfo, "connected to the primary, epoch " + std::to_string(epoch));
  epoch_ = epoch;
  epochs_ = std::move(epochs);
  acked_ = -1;
  closed_t_ = welcome.closed_t();
  catch_up_t_ = welcome.closed_t();
  if (welcome.heartbeat_interval_ms() > 0)
    heartbeat_interval_us_ = welcome.heartbeat_interval_ms() * std::int64_t{1000};
  primary_remembers_ms_ = welcome.tx_log_retention_s() * 1000;
  last_error_.clear();
  if (std::exchange(unsure_of_own_, false)) ExpectOwnBack(welcome.closed_t());
  going_on_ = false;
  GoOn(now_us);
}

// What the primary decides from now on is told by `epochs_` from what another one decides, and a crash must
// not part it from that. So they are on the disk first.
void SemiPrimaryCore::GoOn(std::int64_t now_us) {
  if (!connected() || generation_ == 0) return;
  if (saved_epochs_ != epochs_) {
    submissions_.OnDisconnected();
    actions_.save_epochs = epochs_;
    return;
  }
  Recover(now_us);
  if (!std::exchange(going_on_, true)) submissions_.OnConnected();
}

void SemiPrimaryCore::OnRefused(const std::string& why, proto::Refused::Reason reason) {
  if (last_error_ != why) Say(Note::Level::kError, "the primary refuses this semi-primary: " + why);
  last_error_ = why;
  switch (reason) {
    case proto::Refused::DUPLICATE_SP:
    case proto::Refused::UNSPECIFIED:
      return;  // Hello is said again
    default:
      exit_code_ = 1;
  }
}

void SemiPrimaryCore::OnDecision(const proto::Decision& decision, std::int64_t now_us) {
  if (!IsDecided(decision)) {
    actions_.notes.push_back({Note::Level::kWarning, "the primary sent a decision without an outcome", true});
    return;
  }
  if (decision.has_conflict() && AskName(decision.conflict().winner_sp_id(), now_us)) return;
  NoteOwn(decision.tx_id(), decision.global_t());
  submissions_.OnDecision(decision);
}

void SemiPrimaryCore::OnOutcomeReply(const proto::OutcomeReply& reply, std::int64_t now_us) {
  if (reply.has_conflict() && AskName(reply.conflict().winner_sp_id(), now_us)) return;
  NoteOwn(reply.tx_id(), reply.global_t());  // in views mode it may be applied by this
  submissions_.OnOutcomeReply(reply);
}

void SemiPrimaryCore::OnHeartbeatReply(const proto::HeartbeatReply& reply, std::int64_t now_us) {
  rtt_ms_ = static_cast<double>(now_us - reply.sent_us()) / 1000.0;
  closed_t_ = std::max(closed_t_, reply.closed_t());
}

void SemiPrimaryCore::OnReplicate(const proto::Replicate& replicate, std::int64_t now_us) {
  closed_t_ = std::max(closed_t_, replicate.closed_t());
  if (generation_ == 0 || (joining_ && !copy_received_)) return;
  for (const proto::Transaction& transaction : replicate.transactions()) {
    if (AskName(transaction.sp_id(), now_us)) return;
  }
  switch (position_.Offer(replicate.from_t(), replicate.closed_t())) {
    case StreamPosition::Verdict::kOld:
      return;
    case StreamPosition::Verdict::kGap:
      if (!recovering_ || now_us - recover_us_ > kRecoverAgainUs) Recover(now_us);
      return;
    case StreamPosition::Verdict::kTake:
      break;
  }
  recovering_ = false;
  ApplyStep step;
  step.generation = generation_;
  step.closed_t = replicate.closed_t();
  for (const proto::Transaction& transaction : replicate.transactions()) {
    if (Take(transaction, &step)) continue;
    stream_failure_ =
        "the stream has a malformed transaction, global_t " + std::to_string(transaction.global_t());
    actions_.notes.push_back({Note::Level::kCritical, stream_failure_, true});
    position_.Reset(replicate.from_t());  // it is asked for again
    return;
  }
  stream_failure_.clear();
  if (behind_since_us_ == 0) behind_since_us_ = now_us;
  actions_.steps.push_back(std::move(step));
}

// It may be, or come to be, in this database before the stream has brought all up to it, also when the stream
// begins anew.
void SemiPrimaryCore::NoteOwn(const std::string& tx_id, GlobalT global_t) {
  const auto id = TxId::FromBytes(tx_id);
  if (id && global_t > watermark_) own_.emplace(global_t, *id);
}

// The next transaction of the stream. False when it is malformed.
bool SemiPrimaryCore::Take(const proto::Transaction& transaction, ApplyStep* step) {
  const auto tx_id = TxId::FromBytes(transaction.tx_id());
  WriteSetPtr write_set = transaction.has_write_set() ? ParseWriteSet(transaction.write_set()) : nullptr;
  const bool own = transaction.sp_id() == options_.sp_id;
  if (!tx_id || (transaction.has_write_set() && !write_set) || (!own && !write_set)) return false;
  step->bytes += transaction.write_set().size();
  if (own) {
    if (!write_set) write_set = submissions_.WriteSetOf(*tx_id);
    NoteOwn(transaction.tx_id(), transaction.global_t());
    submissions_.OnOwnTransaction(*tx_id, transaction.global_t());
  } else {
    submissions_.OnRemoteTransaction(transaction.global_t(), transaction.sp_id(), write_set);
  }
  step->transactions.push_back({transaction.global_t(), *tx_id, own, std::move(write_set)});
  return true;
}

void SemiPrimaryCore::OnSnapshotChunk(const proto::SnapshotChunk& chunk, std::int64_t now_us) {
  if (generation_ == 0) return;
  if (!joining_ || copy_received_) {
    // It was asked for twice, and the first one is complete here. The stream goes on where the second one
    // ends, which may be further: without this nobody would notice until somebody commits.
    if (chunk.last() && chunk.snapshot_t() > position_.position()) Recover(now_us);
    return;
  }
  const std::int64_t rows_before = chunk.rows_done() - chunk.rows_size();
  const bool begins = rows_before == 0;
  if (!begins && rows_before != copy_rows_)
    return;  // of a copy that was asked for earlier; the new one comes
  copy_rows_ = chunk.rows_done();
  auto rows = std::make_shared<proto::WriteSet>();
  *rows->mutable_rows() = chunk.rows();
  ApplyStep step;
  step.generation = generation_;
  step.closed_t = chunk.snapshot_t();
  step.copied_rows = std::move(rows);
  step.copy_begins = begins;
  step.copy_is_complete = chunk.last();
  step.complete_t = chunk.complete_t();
  step.rows_done = chunk.rows_done();
  step.bytes = chunk.ByteSizeLong();
  actions_.steps.push_back(std::move(step));
  copy_rows_total_ = std::max(chunk.rows_total(), chunk.rows_done());
  recovering_ = false;
  if (!chunk.last()) return;
  copy_received_ = true;
  complete_t_ = chunk.complete_t();  // it leaves out what was changed since
  position_.Reset(chunk.snapshot_t());
}

// True when the name of this semi-primary, which joined after the last Welcome, is being asked for: drop the
// message. Hello makes the primary begin anew, so the message comes again after Welcome. Asked once for each
// number.
bool SemiPrimaryCore::AskName(SpId sp_id, std::int64_t now_us) {
  if (sp_id == 0 || sp_names_.contains(sp_id)) return false;
  sp_names_.emplace(sp_id, std::to_string(sp_id));
  asking_name_ = true;
  SayHello(now_us);
  return true;
}

void SemiPrimaryCore::SayHello(std::int64_t now_us) {
  hello_us_ = now_us;
  proto::ToPrimary& message = actions_.messages.emplace_back();
  proto::Hello* hello = message.mutable_hello();
  hello->set_cluster_id(options_.cluster_id);
  hello->set_sp_id(options_.sp_id);
  hello->set_name(options_.name);
  hello->set_incarnation(options_.incarnation);
  hello->set_watermark(watermark_);
  hello->set_protocol_version(kProtocolVersion);
  hello->set_newest_t(newest_t());
  hello->set_history(HistoryOf(epochs_, newest_t()));
  for (auto one = own_.upper_bound(newest_t()); one != own_.end(); ++one) {
    proto::OwnCommit* own = hello->add_own_commits();
    own->set_global_t(one->first);
    own->set_tx_id(one->second.ToBytes());
    own->set_history(HistoryOf(epochs_, one->first));
  }
}

// A wrong address looks like a primary that is not there yet: the operator must be told once.
void SemiPrimaryCore::SayIfAlone(std::int64_t now_us) {
  if (connected() || alone_said_ || generation_ == 0) return;
  if (alone_since_us_ == 0) alone_since_us_ = now_us;
  if (now_us - alone_since_us_ <= options_.heartbeat_timeout_us) return;
  alone_said_ = true;
  last_error_ =
      "the primary has not answered yet: is psp-primary running, is `primary` its address, and is `key_file` "
      "a "
      "copy of its key?";
  Say(Note::Level::kWarning, last_error_);
}

void SemiPrimaryCore::Disconnect(const char* why) {
  last_error_ = std::string("lost the primary: ") + why;
  Say(Note::Level::kWarning, last_error_);
  epoch_ = 0;
  alone_said_ = true;  // by this
  asking_name_ = false;
  going_on_ = false;
  hello_us_ = 0;
  actions_.reconnect = true;
  actions_.messages.clear();
  submissions_.OnDisconnected();
}

void SemiPrimaryCore::Recover(std::int64_t now_us) {
  recovering_ = true;
  recover_us_ = now_us;
  proto::ToPrimary message;
  message.mutable_recover()->set_from(position_.position());
  message.mutable_recover()->set_whole_table(joining_ && !copy_received_);
  if (!copy_received_) copy_rows_ = -1;
  Send(std::move(message));
}

void SemiPrimaryCore::SendHeartbeat(std::int64_t now_us) {
  heartbeat_us_ = now_us;
  proto::ToPrimary message;
  proto::Heartbeat* heartbeat = message.mutable_heartbeat();
  heartbeat->set_sent_us(now_us);
  heartbeat->set_applied(watermark_);
  if (joining_) heartbeat->set_snapshot_rows_stored(copied_rows_);
  Send(std::move(message));
}

}  // namespace psp
