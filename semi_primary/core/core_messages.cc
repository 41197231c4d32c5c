// The messages to the primary, and what its answers cause: one function for each message.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "common/epochs_proto.h"
#include "semi_primary/core/core.h"
#include "semi_primary/submit/conflict_error.h"

namespace psp::sp {
namespace {

constexpr std::int64_t kAwayUsMax = 600'000'000;
constexpr std::ptrdiff_t kToldEpochsMax = 100;

WriteSetPtr ParseWriteSet(const std::string& bytes) {
  auto write_set = std::make_shared<proto::WriteSet>();
  return write_set->ParseFromString(bytes) ? write_set : nullptr;
}

// Any other decision must neither commit nor abort a transaction.
bool IsDecided(const proto::Decision& decision) {
  return decision.has_global_t() ? decision.global_t() > 0
                                 : decision.outcome_case() != proto::Decision::OUTCOME_NOT_SET;
}

}  // namespace

void Core::OnMessage(const proto::ToSemiPrimary& message, std::int64_t now_us, std::size_t address) {
  if (message.welcome().look() || message.refused().look()) return OnLookAnswer(message, address, now_us);
  if (address != choice_.current()) return;
  connection_.OnMessage(now_us);
  if (message.has_welcome()) return OnWelcome(message.epoch(), message.welcome(), now_us);
  if (message.has_refused())
    return OnRefused(message.refused().message(), message.refused().reason(), now_us);
  if (!connected() || message.epoch() != connection_.epoch()) return;
  if (message.has_heartbeat_reply()) return OnHeartbeatReply(message.heartbeat_reply(), now_us);
  if (message.has_away()) return OnAway(message.away(), now_us);
  if (connection_.awaits_welcome()) return;  // it comes again after Welcome
  if (message.has_decision()) return OnDecision(message.decision(), now_us);
  if (message.has_replicate()) return OnReplicate(message.replicate(), now_us);
  if (message.has_copy_chunk()) return OnCopyChunk(message.copy_chunk(), now_us);
  if (message.has_outcome_reply()) return OnOutcomeReply(message.outcome_reply(), now_us);
  if (message.has_hold_reply()) {
    actions_.hurry = true;
    return hold_.OnReply(message.hold_reply(), progress_.watermark());
  }
}

void Core::OnWelcome(Epoch epoch, const proto::Welcome& welcome, std::int64_t now_us) {
  if (welcome.say_hello()) {
    if (connected()) return Disconnect("it does not know this semi-primary any more");
    if (stream_.has_started()) SendHello(now_us);  // it has heard this one before, and decides now
    return;
  }
  EpochStarts epochs = FromMessages(welcome.epochs());
  const bool is_other = epochs_.empty() || epochs.empty() || epochs.back() != epochs_.back();
  // The answer to an older Hello: since then there are more transactions to report.
  if (connected() && (is_other || epoch != connection_.epoch())) return Disconnect("it has restarted");
  if (const std::string stale = FollowedObjection(epochs, Followed()); !stale.empty() && !needs_copy()) {
    return OnRefused(stale, proto::Refused::STALE_PRIMARY, now_us);
  }
  const std::string lost = HistoryObjection(epochs, newest_t(), HistoryOf(epochs_, newest_t()));
  if (!lost.empty()) return OnRefused(lost, proto::Refused::OTHER_HISTORY, now_us);
  if (needs_copy() && copy_.received() &&
      !HistoryObjection(epochs, copy_.complete_t(), HistoryOf(epochs_, copy_.complete_t())).empty()) {
    AddNote(Note::Level::kWarning, "copy_begins_again",
            "the primary has lost what the copy was waiting for: the copy begins again");
    copy_.Discard();
  }
  for (const auto& sp : welcome.semi_primaries()) sp_names_[sp.sp_id()] = sp.name();
  if (epoch != connection_.epoch()) {
    AddNote(Note::Level::kInfo, "connected", "connected to the primary, epoch " + std::to_string(epoch));
  }
  connection_.OnWelcome(epoch, welcome.heartbeat_interval_ms());
  epochs_ = std::move(epochs);
  follows_any_ = false;
  primary_lacks_ = false;
  progress_.OnWelcome(welcome.closed_t());
  last_error_.clear();
  own_.OnWelcome(welcome.closed_t(), is_other);
  submissions_.RefuseUnsentBefore(own_.back_t());
  serving_ = false;
  ServeWhenEpochsAreSaved(now_us);
}

// `epochs_` distinguish this primary's next decisions from those of another primary. A crash must not
// separate the two, so the epochs go to the disk first.
void Core::ServeWhenEpochsAreSaved(std::int64_t now_us) {
  if (!connected() || !stream_.has_started()) return;
  if (saved_epochs_ != epochs_) {
    saved_epochs_.reset();  // from now on either list may be there
    submissions_.OnDisconnected();
    hold_.OnDisconnected();
    actions_.save_epochs = epochs_;
    return;
  }
  RequestStream(now_us);
  if (std::exchange(serving_, true)) return;
  submissions_.OnConnected(now_us);
  hold_.OnConnected();
}

void Core::OnRefused(const std::string& why, proto::Refused::Reason reason, std::int64_t now_us) {
  const bool is_new = std::exchange(last_error_, why) != why;
  primary_lacks_ = reason == proto::Refused::LACKS;
  if (reason == proto::Refused::NOT_YET) {
    if (is_new) AddNote(Note::Level::kInfo, "primary_hears", why);
    submissions_.OnAskedToWait(now_us);
    return choice_.OnAskedToWait(now_us);
  }
  if (is_new)
    AddNote(Note::Level::kError, "refused_by_primary", "the primary refuses this semi-primary: " + why);
  switch (reason) {
    case proto::Refused::LACKS:
      return choice_.OnLost();
    case proto::Refused::DUPLICATE_SP:
    case proto::Refused::STALE_PRIMARY:
    case proto::Refused::UNSPECIFIED:
      return;  // Hello is said again
    default:
      exit_code_ = 1;
  }
}

void Core::OnLookAnswer(const proto::ToSemiPrimary& message, std::size_t address, std::int64_t now_us) {
  if (!connected()) connection_.OnMessage(now_us);
  if (message.has_refused()) return OnLookRefused(message.refused(), now_us);
  const EpochStarts epochs = FromMessages(message.welcome().epochs());
  if (!choice_.Prefers(address, epochs, Followed(), connected(), now_us)) return;
  if (connected()) Disconnect("there is a newer one");
  choice_.GoTo(address, epochs, now_us);
  actions_.go_to = address;
  SendHello(now_us);
}

// Who knows the epoch that is followed and lacks transactions of it took its place, and has lost them. Whether to go on with the old one or
// to join again is for people to say.
void Core::OnLookRefused(const proto::Refused& refused, std::int64_t now_us) {
  const bool has_lost = refused.reason() == proto::Refused::OTHER_HISTORY;
  const bool lacks = refused.reason() == proto::Refused::LACKS;
  if (!connected() && has_lost) return OnRefused(refused.message(), refused.reason(), now_us);
  if (connected() && !has_lost && !lacks) return;
  const char* who = has_lost ? "another primary was promoted and lacks what is here: "
                    : lacks  ? "another primary was promoted, or has come back: "
                             : "a primary refuses this semi-primary: ";
  last_error_ = connected() ? who + refused.message() : refused.message();
  primary_lacks_ = primary_lacks_ || (lacks && !connected());
  actions_.notes.push_back({Note::Level::kError, who + refused.message(), true});
}

void Core::OnDecision(const proto::Decision& decision, std::int64_t now_us) {
  if (!IsDecided(decision)) {
    actions_.notes.push_back({Note::Level::kWarning, "the primary sent a decision without an outcome", true});
    return;
  }
  if (decision.has_conflict() && AskForName(decision.conflict().winner_sp_id(), now_us)) return;
  RememberOwn(decision.tx_id(), decision.global_t());
  submissions_.OnDecision(decision, now_us);
}

void Core::OnOutcomeReply(const proto::OutcomeReply& reply, std::int64_t now_us) {
  if (reply.has_conflict() && AskForName(reply.conflict().winner_sp_id(), now_us)) return;
  RememberOwn(reply.tx_id(), reply.global_t());  // in views mode it may be applied by this
  submissions_.OnOutcomeReply(reply);
}

void Core::OnHeartbeatReply(const proto::HeartbeatReply& reply, std::int64_t now_us) {
  connection_.OnHeartbeatReply(reply.sent_us(), now_us);
  progress_.OnClosed(reply.closed_t());
  OnStandstill(reply);
  reserved_.clear();
  for (const proto::Reservation& one : reply.reservations()) {
    if (!reserved_.empty()) reserved_ += "; ";
    reserved_ += ReservationText(NamesOf(one.table_id()), one);
  }
}

void Core::OnStandstill(const proto::HeartbeatReply& reply) {
  const bool was_told = !standstill_.empty();
  standstill_ = reply.standstill().why();
  if (reply.has_standstill() && standstill_.empty()) standstill_ = "the primary can decide nothing";
  if (was_told == !standstill_.empty()) return;
  if (was_told)
    return AddNote(Note::Level::kInfo, "standstill_over", "the primary decides transactions again");
  AddNote(Note::Level::kError, "standstill", "no transaction can commit: " + standstill_);
}

void Core::OnReplicate(const proto::Replicate& replicate, std::int64_t now_us) {
  progress_.OnClosed(replicate.closed_t());
  if (!stream_.has_started() || copy_.awaits_rows()) return;
  for (const proto::Transaction& transaction : replicate.transactions()) {
    if (AskForName(transaction.sp_id(), now_us)) return;
  }
  switch (stream_.Offer(replicate.from_t(), replicate.closed_t())) {
    case StreamPosition::Verdict::kOld:
      return;
    case StreamPosition::Verdict::kGap:
      if (stream_.MayRequestAgain(now_us)) RequestStream(now_us);
      return;
    case StreamPosition::Verdict::kTake:
      break;
  }
  ApplyStep step;
  step.generation = stream_.generation();
  step.closed_t = replicate.closed_t();
  for (const proto::Transaction& transaction : replicate.transactions()) {
    if (AddTransaction(transaction, &step, now_us)) continue;
    stream_.OnMalformed(replicate.from_t(), "the stream has a malformed transaction, global_t " +
                                                std::to_string(transaction.global_t()));
    actions_.notes.push_back({Note::Level::kCritical, stream_.failure(), true});
    return;
  }
  stream_.OnTaken();
  progress_.OnTaken(replicate.closed_t(), now_us);
  actions_.steps.push_back(std::move(step));
}

// An own transaction may be in this database before the stream has brought everything up to it, also after a
// restart of the stream.
void Core::RememberOwn(const std::string& tx_id, GlobalT global_t) {
  const auto id = TxId::FromBytes(tx_id);
  if (id && global_t > progress_.watermark()) own_.Add(global_t, *id);
}

// The next transaction of the stream. False when it is malformed.
bool Core::AddTransaction(const proto::Transaction& transaction, ApplyStep* step, std::int64_t now_us) {
  const auto tx_id = TxId::FromBytes(transaction.tx_id());
  WriteSetPtr write_set = transaction.has_write_set() ? ParseWriteSet(transaction.write_set()) : nullptr;
  const bool own = transaction.sp_id() == options_.sp_id;
  if (!tx_id || (transaction.has_write_set() && !write_set) || (!own && !write_set)) return false;
  step->bytes += transaction.write_set().size();
  if (own) {
    if (!write_set) write_set = submissions_.WriteSetOf(*tx_id);
    RememberOwn(transaction.tx_id(), transaction.global_t());
    submissions_.OnOwnTransaction(*tx_id, transaction.global_t());
  } else {
    submissions_.OnRemoteTransaction(transaction.global_t(), *tx_id, transaction.sp_id(), write_set, now_us);
  }
  step->transactions.push_back({transaction.global_t(), *tx_id, own, std::move(write_set)});
  return true;
}

void Core::OnCopyChunk(const proto::CopyChunk& chunk, std::int64_t now_us) {
  if (!stream_.has_started()) return;
  if (!copy_.awaits_rows()) {
    // The copy was asked for twice, and the first one is complete here. The stream continues where the second
    // one ends, which may be further. Without a request this gap would stay unnoticed until the next commit.
    if (chunk.last() && chunk.snapshot_t() > stream_.position()) RequestStream(now_us);
    return;
  }
  std::optional<ApplyStep> step = copy_.TakeChunk(chunk);
  if (!step) return;  // a part of a copy that was asked for earlier; the new copy comes
  step->generation = stream_.generation();
  actions_.steps.push_back(std::move(*step));
  stream_.OnCopyChunk();
  if (copy_.received()) stream_.ContinueAfterCopy(chunk.snapshot_t());
}

// True: the name of this semi-primary, which joined after the last Welcome, is being asked for; drop the
// message. It comes again, because after Hello the primary restarts the stream. Asked once for each number.
bool Core::AskForName(SpId sp_id, std::int64_t now_us) {
  if (sp_id == 0 || sp_names_.contains(sp_id)) return false;
  sp_names_.emplace(sp_id, std::to_string(sp_id));
  connection_.AwaitWelcome();
  SendHello(now_us);
  return true;
}

void Core::OnAway(const proto::Away& away, std::int64_t now_us) {
  const std::int64_t until_us = now_us + std::min(away.limit_ms() * std::int64_t{1000}, kAwayUsMax);
  proto::ToPrimary goodbye;
  goodbye.set_epoch(connection_.epoch());
  goodbye.mutable_goodbye();
  LeavePrimary("it ends for planned work, and COMMITs wait for the next one");
  // Over the same connection: the primary keeps it open until it has this answer.
  actions_.messages.push_back(std::move(goodbye));
  choice_.OnAway(until_us);
  submissions_.OnAway(now_us, until_us);
}

void Core::Disconnect(const char* why) {
  LeavePrimary(why);
  actions_.reconnect = true;
}

void Core::LeavePrimary(const char* why) {
  last_error_ = std::string("lost the primary: ") + why;
  AddNote(Note::Level::kWarning, "disconnected", last_error_);
  reserved_.clear();
  standstill_.clear();
  primary_lacks_ = false;
  connection_.OnLost();
  choice_.OnLost();
  serving_ = false;
  actions_.messages.clear();
  submissions_.OnDisconnected();
  hold_.OnDisconnected();
}

// ---- what is sent ----------------------------------------------------------------------------------------

proto::ToPrimary Core::Hello() const {
  proto::ToPrimary message;
  proto::Hello* hello = message.mutable_hello();
  hello->set_cluster_id(options_.cluster_id);
  hello->set_sp_id(options_.sp_id);
  hello->set_name(options_.name);
  hello->set_incarnation(options_.incarnation);
  hello->set_watermark(progress_.watermark());
  hello->set_protocol_version(kProtocolVersion);
  hello->set_newest_t(newest_t());
  hello->set_history(HistoryOf(epochs_, newest_t()));
  const Commits& commits = own_.commits();
  for (auto one = commits.upper_bound(newest_t()); one != commits.end(); ++one) {
    proto::OwnCommit* own = hello->add_own_commits();
    own->set_global_t(one->first);
    own->set_tx_id(one->second.ToBytes());
    own->set_history(HistoryOf(epochs_, one->first));
  }
  hello->set_followed(Followed());
  if (hello->followed().empty()) return message;
  const auto last = epochs_.end() - 1;
  for (auto one = last - std::min(last - epochs_.begin(), kToldEpochsMax); one != last; ++one) {
    hello->add_followed_before(one->history);
  }
  return message;
}

std::string Core::Followed() const { return follows_any_ || epochs_.empty() ? "" : epochs_.back().history; }

void Core::SendHello(std::int64_t now_us) {
  connection_.OnHelloSent(now_us);
  actions_.messages.push_back(Hello());
}

void Core::Look(std::int64_t now_us) {
  choice_.OnLooked(now_us);
  proto::ToPrimary message = Hello();
  message.mutable_hello()->set_look(true);
  actions_.looks.push_back(std::move(message));
}

void Core::SendHeartbeat(std::int64_t now_us) {
  connection_.OnHeartbeatSent(now_us);
  proto::ToPrimary message;
  proto::Heartbeat* heartbeat = message.mutable_heartbeat();
  heartbeat->set_sent_us(now_us);
  heartbeat->set_applied(progress_.watermark());
  heartbeat->set_rtt_us(connection_.rtt_us());
  if (copy_.joining()) heartbeat->set_copied_rows(copy_.rows_applied());
  Send(std::move(message));
}

// Only after the stream was requested, which tells the primary whether this SP joins.
void Core::SendAck(std::int64_t now_us) {
  if (!serving_) return;
  const auto watermark = progress_.TakeAck(now_us);
  if (!watermark) return;
  proto::ToPrimary ack;
  ack.mutable_ack()->set_watermark(*watermark);
  Send(std::move(ack));
}

void Core::RequestStream(std::int64_t now_us) {
  stream_.OnRequested(now_us);
  copy_.OnRequested();
  proto::ToPrimary message;
  message.mutable_stream_request()->set_from(stream_.position());
  message.mutable_stream_request()->set_with_copy(copy_.awaits_rows());
  Send(std::move(message));
}

void Core::SendGoodbye() {
  proto::ToPrimary goodbye;
  goodbye.mutable_goodbye();
  Send(std::move(goodbye));
}

// Nothing is sent when there is no connection: everything open is sent again after the next Welcome.
void Core::Send(proto::ToPrimary message) {
  if (!connected()) return;
  message.set_epoch(connection_.epoch());
  actions_.messages.push_back(std::move(message));
}

}  // namespace psp::sp
