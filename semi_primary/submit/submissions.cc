#include "semi_primary/submit/submissions.h"

#include <algorithm>

#include "semi_primary/submit/conflict_error.h"

namespace psp::sp {
namespace {

// One more second for each megabyte of write-set: sending, certifying and logging it take time in proportion.
constexpr std::int64_t kUsPerByte = 1;

}  // namespace

void Submissions::Submit(const Submission& submission, std::int64_t now_us) {
  log_.OnReceived(submission, now_us);
  if (stopped_)
    return Refuse(submission, {"08006", "psp: the semi-primary daemon is stopping", "", "Nothing was sent."},
                  now_us);
  if (bytes_ + submission.write_set_bytes > options_.waiting_bytes_max && !entries_.empty()) {
    return Refuse(
        submission,
        {"53200", "too many bytes of write-sets wait for the primary", "", "Retry the transaction later."},
        now_us);
  }
  if (entries_.contains(submission.tx_id)) {
    return Refuse(submission, {"55000", "a transaction with this tx id is being committed already", "", ""},
                  now_us);
  }
  if (options_.local_certification) {
    const auto conflict = local_certification_.Add(submission.tx_id, submission.snapshot,
                                                   submission.write_set, submission.uses);
    if (conflict) {
      if (connected_) SendLost(submission, *conflict);
      return Refuse(submission, Lost(submission, *conflict, now_us, now_us), now_us, &*conflict);
    }
  }
  Entry& entry = entries_[submission.tx_id];
  entry.submission = submission;
  entry.since_us = now_us;
  entry.limited_since_us = clock_.Time(now_us);
  bytes_ += submission.write_set_bytes;
  by_ticket_[submission.ticket] = submission.tx_id;
  entry.who.tx_id = submission.tx_id;
  entry.timing.arrived_us = submission.arrived_us != 0 ? submission.arrived_us : now_us;
  if (connected_) SendCertify(entry, now_us);
}

void Submissions::AskOutcome(Ticket ticket, const TxId& tx_id, std::int64_t now_us) {
  const auto found = entries_.find(tx_id);
  if (found != entries_.end() && found->second.state == State::kCommitted) {
    replies_.push_back({ticket, Outcome{Outcome::Is::kCommitted, found->second.global_t}});
    return;
  }
  questions_[ticket] = {tx_id, clock_.Time(now_us)};
  if (connected_) SendOutcomeRequest(tx_id);
}

void Submissions::BackendGone(Ticket ticket) {
  questions_.erase(ticket);
  const auto waiter = by_ticket_.find(ticket);
  if (waiter == by_ticket_.end()) return;
  const auto found = entries_.find(waiter->second);
  by_ticket_.erase(waiter);
  found->second.submission.ticket = 0;
  local_certification_.Remove(found->first);
  if (found->second.state == State::kUnsent) return Erase(found);
  found->second.state = State::kAnswered;
}

void Submissions::OnConnected(std::int64_t now_us) {
  connected_ = true;
  const bool was_away = clock_.has_stood();
  clock_.GoOn(now_us);
  for (auto& [tx_id, entry] : entries_) {
    // Of the time before, a part went by while the primary ended and took no requests.
    if (was_away) entry.limited_since_us = clock_.Time(now_us);
    if (entry.state == State::kUnsent || entry.state == State::kWaiting) SendCertify(entry, now_us);
    if (entry.state == State::kAnswered) SendOutcomeRequest(tx_id);
  }
  for (auto& [ticket, question] : questions_) {
    if (was_away) question.limited_since_us = clock_.Time(now_us);
    SendOutcomeRequest(question.tx_id);
  }
}

void Submissions::OnDisconnected() {
  connected_ = false;
  messages_.clear();
}

void Submissions::OnDecision(const proto::Decision& decision, std::int64_t now_us) {
  const auto tx_id = TxId::FromBytes(decision.tx_id());
  const auto found = tx_id ? entries_.find(*tx_id) : entries_.end();
  if (found == entries_.end() || found->second.state == State::kCommitted) return;
  NoteDecision(&found->second, decision, now_us);
  if (decision.has_global_t()) return SetCommitted(found, decision.global_t());
  const proto::WriteSet& write_set = *found->second.submission.write_set;
  if (decision.has_conflict()) {
    // A transaction without a waiter has mostly lost earlier, against what arrived.
    if (found->second.submission.ticket != 0) {
      AnswerLost(&found->second, ToConflict(decision.conflict()), now_us);
    }
  } else if (decision.older_catalog()) {
    const bool is_rows = write_set.kind() == proto::ENTRY_ROWS;
    if (!is_rows) options_.on_change_lost(write_set);
    options_.on_lost(*tx_id, write_set, nullptr, now_us - found->second.since_us, now_us);
    Answer(found->second,
           is_rows ? OlderCatalogError(decision.error()) : LostSchemaChangeError(decision.error()));
  } else if (decision.sqlstate().starts_with("54")) {
    Answer(found->second, TooLongKeyError(decision.error()));
  } else {
    Answer(found->second, UserError{"40000", "the primary refused the transaction", decision.error(), ""});
  }
  Erase(found);
}

// Of one whose backend waits for it.
void Submissions::NoteDecision(Entry* entry, const proto::Decision& decision, std::int64_t now_us) {
  if (entry->state != State::kWaiting) return;
  entry->timing.decided_us = now_us;
  entry->timing.parked_us = decision.parked_us();
  entry->timing.queue_us = decision.queue_us();
  entry->timing.certify_us = decision.certify_us();
}

void Submissions::OnOutcomeReply(const proto::OutcomeReply& reply) {
  const auto tx_id = TxId::FromBytes(reply.tx_id());
  if (!tx_id) return;
  const GlobalT global_t = reply.global_t();
  const bool has_lost = global_t <= 0 && reply.has_conflict();
  const std::optional<UserError> lost =
      has_lost ? std::optional(ErrorOf(ToConflict(reply.conflict()))) : std::nullopt;
  const auto found = entries_.find(*tx_id);
  Outcome::Is is = global_t > 0 ? Outcome::Is::kCommitted : Outcome::Is::kAborted;
  // What is here and open was never committed: the primary forgets nothing that this semi-primary has not applied.
  if (reply.forgotten() && found == entries_.end()) is = Outcome::Is::kForgotten;
  for (auto question = questions_.begin(); question != questions_.end();) {
    if (question->second.tx_id == *tx_id) {
      replies_.push_back({question->first, Outcome{is, global_t, lost}});
      question = questions_.erase(question);
    } else {
      ++question;
    }
  }
  if (found == entries_.end() || found->second.state == State::kCommitted) return;
  if (global_t > 0) return SetCommitted(found, global_t);
  Answer(found->second,
         lost.value_or(UserError{"40000", "the transaction was made aborted by a question for its outcome"}));
  Erase(found);
}

void Submissions::OnOwnTransaction(const TxId& tx_id, GlobalT global_t) {
  const auto found = entries_.find(tx_id);
  if (found != entries_.end() && found->second.state != State::kCommitted) SetCommitted(found, global_t);
}

void Submissions::OnRemoteTransaction(GlobalT global_t, const TxId& tx_id, SpId sp_id,
                                      const WriteSetPtr& write_set, std::int64_t now_us) {
  log_.OnRemote(global_t, tx_id, sp_id, now_us);
  if (!options_.local_certification) return;
  for (const LocalCertification::Doomed& doomed : local_certification_.Arrived(global_t, sp_id, write_set)) {
    const auto found = entries_.find(doomed.tx_id);
    const bool unsent = found->second.state == State::kUnsent;
    AnswerLost(&found->second, doomed.conflict, now_us);
    found->second.state = State::kAnswered;  // the primary will say the same
    if (unsent) Erase(found);
  }
}

void Submissions::OnApplied(GlobalT watermark, std::int64_t now_us) {
  log_.OnApplied(watermark, now_us);
  local_certification_.Applied(watermark);
  while (!committed_.empty() && committed_.begin()->first <= watermark) {
    Erase(entries_.find(committed_.begin()->second));
    committed_.erase(committed_.begin());
  }
}

void Submissions::OnTime(std::int64_t now_us) {
  if (clock_.stands(now_us)) return;  // nobody is late, also where a limit is 0
  const std::int64_t time_us = clock_.Time(now_us);
  std::vector<TxId> late;
  for (const auto& [ticket, tx_id] : by_ticket_) {
    const Entry& entry = entries_.at(tx_id);
    const bool unsent = entry.state == State::kUnsent;
    const std::int64_t bytes = unsent ? 0 : static_cast<std::int64_t>(entry.submission.write_set_bytes);
    const std::int64_t without_sign_us = time_us - std::max(entry.limited_since_us, asked_to_wait_us_);
    if (time_us - entry.limited_since_us >= options_.commit_timeout_us + kUsPerByte * bytes ||
        (unsent && without_sign_us >= options_.disconnected_grace_us)) {
      late.push_back(tx_id);
    }
  }
  for (const TxId& tx_id : late) {
    const auto found = entries_.find(tx_id);
    const bool unsent = found->second.state == State::kUnsent;
    if (!unsent) ++counters_.in_doubt_total;
    Answer(found->second, unsent ? NotConnectedError() : UnknownOutcomeError(tx_id));
    found->second.state = State::kAnswered;
    local_certification_.Remove(tx_id);
    if (unsent) Erase(found);
  }
  std::erase_if(questions_, [&](const auto& item) {
    if (time_us - item.second.limited_since_us < options_.commit_timeout_us) return false;
    replies_.push_back(
        {item.first, UserError{"08006", "psp: the primary has not answered", "", "Ask again later."}});
    return true;
  });
}

void Submissions::RefuseUnsentBefore(GlobalT watermark) {
  RefuseUnsent(LacksOwnError(),
               [watermark](const Submission& one) { return one.snapshot.watermark < watermark; });
}

void Submissions::Stop() {
  stopped_ = true;
  RefuseUnsent({"08006", "psp: the semi-primary daemon is stopping", "", "Nothing was sent."},
               [](const Submission&) { return true; });
}

void Submissions::RefuseUnsent(const UserError& why,
                               const std::function<bool(const Submission&)>& is_refused) {
  std::vector<TxId> refused;
  for (const auto& [tx_id, entry] : entries_) {
    if (entry.state == State::kUnsent && is_refused(entry.submission)) refused.push_back(tx_id);
  }
  for (const TxId& tx_id : refused) {
    const auto found = entries_.find(tx_id);
    Answer(found->second, why);
    Erase(found);
  }
}

WriteSetPtr Submissions::WriteSetOf(const TxId& tx_id) const {
  const auto found = entries_.find(tx_id);
  return found == entries_.end() ? nullptr : found->second.submission.write_set;
}

void Submissions::SendCertify(Entry& entry, std::int64_t now_us) {
  entry.state = State::kWaiting;
  entry.timing.sent_us = now_us;
  log_.OnSent(entry.submission.tx_id, now_us);
  proto::Certify* certify = messages_.emplace_back().mutable_certify();
  certify->set_tx_id(entry.submission.tx_id.ToBytes());
  certify->mutable_snapshot()->set_watermark(entry.submission.snapshot.watermark);
  const auto& seen = entry.submission.snapshot.seen;
  certify->mutable_snapshot()->mutable_seen()->Add(seen.begin(), seen.end());
  entry.submission.write_set->SerializeToString(certify->mutable_write_set());
  if (entry.submission.uses) *certify->mutable_uses() = *entry.submission.uses;
}

// The primary, which gives losers a chance, would not hear of what was never sent.
void Submissions::SendLost(const Submission& submission, const Conflict& conflict) {
  proto::Lost* lost = messages_.emplace_back().mutable_lost();
  *lost->mutable_conflict() = ToMessage(conflict);
  for (const proto::Row& row : submission.write_set->rows()) {
    proto::Row* key = lost->mutable_keys()->add_rows();
    key->set_table_id(row.table_id());
    key->set_key(row.key());
  }
  if (submission.uses) *lost->mutable_uses() = *submission.uses;
}

void Submissions::SendOutcomeRequest(const TxId& tx_id) {
  messages_.emplace_back().mutable_outcome_request()->set_tx_id(tx_id.ToBytes());
}

void Submissions::Answer(Entry& entry, FrontAnswer answer) {
  const Ticket ticket = std::exchange(entry.submission.ticket, 0);
  if (ticket == 0) return;
  by_ticket_.erase(ticket);
  ++(std::holds_alternative<Committed>(answer) ? counters_.commits_total : counters_.aborts_total);
  replies_.push_back({ticket, std::move(answer), entry.timing, entry.who});
}

void Submissions::AnswerLost(Entry* entry, const Conflict& conflict, std::int64_t now_us) {
  entry->who.winner_t = conflict.winner_t;
  entry->who.winner_sp_id = conflict.winner_sp_id;
  Answer(*entry, Lost(entry->submission, conflict, entry->since_us, now_us));
}

void Submissions::Refuse(const Submission& submission, UserError error, std::int64_t now_us,
                         const Conflict* conflict) {
  ++counters_.aborts_total;
  const std::int64_t arrived_us = submission.arrived_us != 0 ? submission.arrived_us : now_us;
  CommitWho who{submission.tx_id};
  if (conflict != nullptr) {
    who.winner_t = conflict->winner_t;
    who.winner_sp_id = conflict->winner_sp_id;
  }
  replies_.push_back({submission.ticket, std::move(error), {.arrived_us = arrived_us}, who});
}

void Submissions::SetCommitted(Entries::iterator found, GlobalT global_t) {
  local_certification_.Remove(found->first);
  options_.on_decided(*found->second.submission.write_set, nullptr);
  Answer(found->second, Committed{global_t});
  found->second.state = State::kCommitted;
  found->second.global_t = global_t;
  committed_.emplace(global_t, found->first);
}

void Submissions::Erase(Entries::iterator found) {
  local_certification_.Remove(found->first);
  bytes_ -= found->second.submission.write_set_bytes;
  entries_.erase(found);
}

UserError Submissions::Lost(const Submission& submission, const Conflict& conflict, std::int64_t since_us,
                            std::int64_t now_us) {
  ++counters_.losses_total;
  options_.on_decided(*submission.write_set, &conflict.key);
  options_.on_lost(submission.tx_id, *submission.write_set, &conflict, now_us - since_us, now_us);
  return ErrorOf(conflict);
}

UserError Submissions::ErrorOf(const Conflict& conflict) const {
  const std::string winner = conflict.winner_sp_id == 0 ? "" : options_.sp_name(conflict.winner_sp_id);
  return ConflictError(options_.names(conflict.key.table_id), conflict, winner);
}

}  // namespace psp::sp
