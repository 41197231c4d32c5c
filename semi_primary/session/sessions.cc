#include "semi_primary/session/sessions.h"

#include <algorithm>
#include <set>

namespace psp::sp {
namespace {

using Status = TransactionState::Status;

constexpr std::int64_t kApplyAgainUs = 50'000;
constexpr std::size_t kWaitersMax = 64;  // of one transaction; the oldest gets no answer and asks again

const UserError kNotInTheLog = {"40000", "the primary has not committed the transaction", "",
                                "A crash came first, or the primary refused it. Run it again."};
const UserError kTooMany = {"53300", "psp: too many transactions commit at once", "",
                            "Send the same request again later."};
const UserError kNotConnected = {"57P03", "psp: the primary, which may know the transaction, was not reached",
                                 "", "Send the same request again."};
const UserError kNotReady = {"57P03", "psp: the semi-primary is starting or stopping", "",
                             "Send the same request again."};

UserError NotDecidedYet(const TxId& tx_id) {
  return {"08007", "psp: transaction " + tx_id.ToText() + " is not decided yet", "",
          "Send the same request again later."};
}

UserError NotOfHere(const TxId& tx_id) {
  return {"25P01", "psp: no transaction " + tx_id.ToText() + " has begun at this semi-primary", "",
          "Send the request to the semi-primary whose psp.begin() gave the id."};
}

UserError Forgotten(const TxId& tx_id) {
  return {"25P01", "psp: transaction " + tx_id.ToText() + " began too long ago: it is forgotten",
          "The primary has forgotten what was committed at that time (tx_log_retention_s).",
          "Look in the database for what it has written."};
}

proto::ClientReply::Status ToReply(Status status) {
  switch (status) {
    case Status::kCommitted:
      return proto::ClientReply::COMMITTED;
    case Status::kAborted:
      return proto::ClientReply::ABORTED;
    case Status::kWaiting:
      return proto::ClientReply::WAITING;
    case Status::kPending:
      return proto::ClientReply::PENDING;
    case Status::kUnknown:
    case Status::kOpen:
    case Status::kRunning:
      break;
  }
  return proto::ClientReply::RUNNING;
}

void SetError(const UserError& error, proto::ClientReply* reply) {
  reply->set_sqlstate(error.sqlstate);
  reply->set_message(error.message);
  if (!error.detail.empty()) reply->set_detail(error.detail);
  if (!error.hint.empty()) reply->set_hint(error.hint);
}

std::int64_t Number(std::string_view big_endian) {
  std::int64_t number = 0;
  for (const char c : big_endian) number = number << 8 | static_cast<unsigned char>(c);
  return number;
}

std::vector<std::int32_t> TablesOf(const proto::WriteSet& write_set) {
  std::set<std::int32_t> tables;
  for (const proto::Row& row : write_set.rows()) tables.insert(static_cast<std::int32_t>(row.table_id()));
  return {tables.begin(), tables.end()};
}

}  // namespace

// ---- requests --------------------------------------------------------------------------------------------

void Sessions::OnRequest(const ClientRoute& route, const proto::ClientRequest& request, std::int64_t now_us) {
  const Waiter waiter{route, request.request_id()};
  const auto tx_id = TxId::FromBytes(request.tx_id());
  if (!tx_id) return Fail(waiter, "", {"08P01", "psp: tx_id must have 16 bytes"});
  if (!ready_ || stopping_) return Fail(waiter, tx_id->View(), kNotReady);
  switch (request.kind()) {
    case proto::ClientRequest::COMMIT:
      return OnCommitRequest(*tx_id, waiter, now_us);
    case proto::ClientRequest::OUTCOME:
      return OnLookRequest(*tx_id, waiter, now_us, false);
    case proto::ClientRequest::ABORT:
      return OnLookRequest(*tx_id, waiter, now_us, true);
    default:
      return Fail(waiter, tx_id->View(), {"08P01", "psp: the request is of no known kind"});
  }
}

void Sessions::OnCommitRequest(const TxId& tx_id, const Waiter& waiter, std::int64_t now_us) {
  const auto found = entries_.find(tx_id);
  if (found != entries_.end()) {
    if (const auto told = ToldAlready(found->second)) return Answer(waiter, tx_id, *told);
    return Wait(&found->second, waiter, now_us);
  }
  if (entries_.size() >= options_.transactions_max) return Fail(waiter, tx_id.View(), kTooMany);
  entries_[tx_id].clients.push_back({waiter, now_us});
  actions_.jobs.emplace_back(TakeCommitRequest{tx_id});
}

void Sessions::OnLookRequest(const TxId& tx_id, const Waiter& waiter, std::int64_t now_us, bool abort) {
  const auto found = entries_.find(tx_id);
  Entry* entry = found == entries_.end() ? nullptr : &found->second;
  if (const auto told = entry == nullptr ? std::nullopt : ToldAlready(*entry)) {
    Answer(waiter, tx_id, *told);
  } else if (entry != nullptr && entry->state == State::kSubmitted) {
    Answer(waiter, tx_id, {Status::kWaiting});
  } else if (entry != nullptr && entry->state == State::kApplying) {
    Wait(entry, waiter, now_us);
  } else {  // ask the database, also about an entry here: before a crash clients may have been told the end
    if (looks_ >= options_.transactions_max) return Fail(waiter, tx_id.View(), kTooMany);
    ++looks_;
    actions_.jobs.emplace_back(Look{tx_id, waiter, abort});
  }
}

// The answer that clients have got, and that every client gets from now on.
std::optional<TransactionState> Sessions::ToldAlready(const Entry& entry) const {
  if (entry.state == State::kAborting) return TransactionState{Status::kAborted, 0, entry.reason};
  if (entry.state == State::kApplying && !options_.wait_for_apply)
    return TransactionState{Status::kCommitted, entry.global_t};
  return std::nullopt;
}

// A client that asks again while it waits gets one answer.
void Sessions::Wait(Entry* entry, const Waiter& waiter, std::int64_t now_us) {
  const auto same = std::ranges::find(entry->clients, waiter, &WaitingClient::waiter);
  if (same != entry->clients.end()) {
    same->since_us = now_us;
    return;
  }
  if (entry->clients.size() >= kWaitersMax) entry->clients.erase(entry->clients.begin());
  entry->clients.push_back({waiter, now_us});
}

// ---- what local workers tell -----------------------------------------------------------------------------

void Sessions::OnJobResult(JobResult result, std::int64_t now_us) {
  if (auto* taken = std::get_if<CommitRequestTaken>(&result)) {
    OnTaken(std::move(*taken));
  } else if (const auto* failed = std::get_if<CommitRequestFailed>(&result)) {
    const auto found = entries_.find(failed->tx_id);
    if (found == entries_.end() || found->second.state != State::kTaking) return;
    FailAll(failed->tx_id, &found->second, failed->error);
    entries_.erase(found);
  } else if (const auto* looked = std::get_if<Looked>(&result)) {
    OnLooked(*looked, now_us);
  } else if (const auto* tried = std::get_if<ApplyTried>(&result)) {
    OnApplyTried(*tried, now_us);
  } else if (const auto* written = std::get_if<AbortWritten>(&result)) {
    const auto found = entries_.find(written->tx_id);
    if (found == entries_.end() || found->second.state != State::kAborting) return;
    Finish(found, {Status::kAborted, 0, found->second.reason});
  } else {
    OnPending(std::get<PendingListed>(result));
  }
}

void Sessions::OnTaken(CommitRequestTaken taken) {
  const auto found = entries_.find(taken.tx_id);
  if (found == entries_.end() || found->second.state != State::kTaking) return;
  Entry* entry = &found->second;
  switch (taken.state.status) {
    case Status::kCommitted:
    case Status::kAborted:
      return Finish(found, taken.state);
    case Status::kPending:
      return AskOutcome(taken.tx_id, entry);
    case Status::kWaiting:
      break;
    default:
      entry->is_known_here = false;
      return AskIfOfHere(found);
  }
  const std::size_t bytes = taken.write_set->ByteSizeLong();
  if (bytes > options_.write_set_bytes_max) {
    return SetAborted(
        taken.tx_id, entry,
        {"54000",
         "the write-set has " + std::to_string(bytes) +
             " bytes, more than write_set_bytes_max = " + std::to_string(options_.write_set_bytes_max),
         "", "Split the transaction, or raise the limit at the primary and all semi-primaries."});
  }
  Submit(entry, std::move(taken), bytes);
}

void Sessions::OnLooked(const Looked& looked, std::int64_t now_us) {
  --looks_;
  if (looked.failed) return Fail(looked.asked_by, looked.tx_id.View(), *looked.failed);
  const auto found = entries_.find(looked.tx_id);  // its commit was requested meanwhile
  const bool is_decided = found != entries_.end() && found->second.state == State::kApplying;
  if (looked.state.status != Status::kUnknown && !is_decided)
    return Answer(looked.asked_by, looked.tx_id, looked.state);
  if (found != entries_.end()) return Wait(&found->second, looked.asked_by, now_us);
  const auto entry = entries_.try_emplace(looked.tx_id).first;
  entry->second.is_known_here = false;
  Wait(&entry->second, looked.asked_by, now_us);
  AskIfOfHere(entry);
}

void Sessions::OnApplyTried(const ApplyTried& tried, std::int64_t now_us) {
  const auto found = entries_.find(tried.tx_id);
  if (found == entries_.end() || found->second.state != State::kApplying) return;
  if (tried.is_in) return Finish(found, {Status::kCommitted, tried.global_t});
  found->second.retry_us = now_us + kApplyAgainUs;
}

void Sessions::OnPending(const PendingListed& pending) {
  for (const TxId& tx_id : pending.tx_ids) {
    const auto [found, is_new] = entries_.try_emplace(tx_id);
    if (is_new) AskOutcome(tx_id, &found->second);
  }
}

// ---- what the primary tells ------------------------------------------------------------------------------

void Sessions::OnCommitted(Ticket ticket, GlobalT global_t) {
  TxId tx_id;
  if (Entry* entry = EntryOf(ticket, &tx_id)) SetCommitted(tx_id, entry, global_t);
}

void Sessions::OnOutcome(Ticket ticket, const Outcome& outcome) {
  TxId tx_id;
  Entry* entry = EntryOf(ticket, &tx_id);
  if (entry == nullptr) return;
  if (outcome.is == Outcome::Is::kCommitted) return SetCommitted(tx_id, entry, outcome.global_t);
  if (outcome.is == Outcome::Is::kForgotten && !entry->is_known_here)
    return EndUnknown(entries_.find(tx_id), Forgotten(tx_id));
  SetAborted(tx_id, entry, outcome.lost.value_or(kNotInTheLog));
}

void Sessions::OnError(Ticket ticket, const UserError& error, std::int64_t now_us) {
  TxId tx_id;
  Entry* entry = EntryOf(ticket, &tx_id);
  if (entry == nullptr) return;
  if (entry->state == State::kAsking) {  // the primary has not answered
    if (!entry->is_known_here) return EndUnknown(entries_.find(tx_id), kNotConnected);
    if (!stopping_) AskOutcome(tx_id, entry);
    return OnTime(now_us);
  }
  if (error.sqlstate != "08007") return SetAborted(tx_id, entry, error);
  FailAll(tx_id, entry, NotDecidedYet(tx_id));
  if (!stopping_) AskOutcome(tx_id, entry);
}

void Sessions::OnApplyStarted() {
  ready_ = true;
  actions_.jobs.emplace_back(ListPending{});
}

void Sessions::OnTime(std::int64_t now_us) {
  for (auto& [tx_id, entry] : entries_) {
    if (entry.state == State::kApplying && entry.retry_us != 0 && now_us >= entry.retry_us) {
      entry.retry_us = 0;
      actions_.jobs.emplace_back(Apply{tx_id, entry.global_t, {}});
    }
    if (entry.state == State::kSubmitted) continue;  // the submission has the same limit
    std::erase_if(entry.clients, [&, &id = tx_id](const WaitingClient& client) {
      if (now_us - client.since_us < options_.commit_timeout_us) return false;
      Fail(client.waiter, id.View(), NotDecidedYet(id));
      return true;
    });
  }
}

std::size_t Sessions::jobs() const {
  const auto busy = std::ranges::count_if(entries_, [](const auto& item) {
    return item.second.state != State::kSubmitted && item.second.state != State::kAsking;
  });
  return looks_ + static_cast<std::size_t>(busy);
}

// ---- from state to state ---------------------------------------------------------------------------------

bool Sessions::IsOfThisSemiPrimary(const TxId& tx_id) const {
  return static_cast<SpId>(Number(tx_id.View().substr(TxId::kSize - 4))) == options_.sp_id;
}

Sessions::Entry* Sessions::EntryOf(Ticket ticket, TxId* tx_id) {
  const auto known = by_ticket_.find(ticket);
  if (known == by_ticket_.end()) return nullptr;
  *tx_id = known->second;
  by_ticket_.erase(known);
  const auto found = entries_.find(*tx_id);
  return found == entries_.end() || found->second.ticket != ticket ? nullptr : &found->second;
}

void Sessions::Submit(Entry* entry, CommitRequestTaken taken, std::size_t bytes) {
  entry->state = State::kSubmitted;
  entry->ticket = ++last_ticket_;
  entry->tables = TablesOf(*taken.write_set);
  by_ticket_[entry->ticket] = taken.tx_id;
  actions_.submissions.push_back({entry->ticket,
                                  taken.tx_id,
                                  {taken.watermark, std::move(taken.seen)},
                                  std::move(taken.write_set),
                                  bytes});
}

void Sessions::AskOutcome(const TxId& tx_id, Entry* entry) {
  entry->state = State::kAsking;
  entry->ticket = ++last_ticket_;
  by_ticket_[entry->ticket] = tx_id;
  actions_.questions.push_back({entry->ticket, tx_id});
}

void Sessions::AskIfOfHere(Entries::iterator found) {
  if (!IsOfThisSemiPrimary(found->first)) return EndUnknown(found, NotOfHere(found->first));
  AskOutcome(found->first, &found->second);
}

void Sessions::EndUnknown(Entries::iterator found, const UserError& why) {
  FailAll(found->first, &found->second, why);
  entries_.erase(found);
}

void Sessions::SetCommitted(const TxId& tx_id, Entry* entry, GlobalT global_t) {
  entry->state = State::kApplying;
  entry->global_t = global_t;
  actions_.jobs.emplace_back(Apply{tx_id, global_t, entry->tables});
  if (!options_.wait_for_apply) AnswerAll(tx_id, entry, {Status::kCommitted, global_t});
}

void Sessions::SetAborted(const TxId& tx_id, Entry* entry, const UserError& reason) {
  entry->state = State::kAborting;
  entry->reason = reason;
  actions_.jobs.emplace_back(Abort{tx_id, reason});
  AnswerAll(tx_id, entry, {Status::kAborted, 0, reason});
}

void Sessions::Finish(Entries::iterator found, const TransactionState& state) {
  AnswerAll(found->first, &found->second, state);
  entries_.erase(found);
}

void Sessions::AnswerAll(const TxId& tx_id, Entry* entry, const TransactionState& state) {
  for (const WaitingClient& client : std::exchange(entry->clients, {})) Answer(client.waiter, tx_id, state);
}

void Sessions::FailAll(const TxId& tx_id, Entry* entry, const UserError& error) {
  for (const WaitingClient& client : std::exchange(entry->clients, {}))
    Fail(client.waiter, tx_id.View(), error);
}

void Sessions::Answer(const Waiter& waiter, const TxId& tx_id, const TransactionState& state) {
  proto::ClientReply& reply = actions_.replies.emplace_back(Reply{waiter.route, {}}).message;
  reply.set_request_id(waiter.request_id);
  reply.set_tx_id(tx_id.ToBytes());
  reply.set_status(ToReply(state.status));
  if (state.status == Status::kCommitted) reply.set_global_t(state.global_t);
  if (state.status == Status::kAborted) SetError(state.reason, &reply);
}

void Sessions::Fail(const Waiter& waiter, std::string_view tx_id, const UserError& error) {
  proto::ClientReply& reply = actions_.replies.emplace_back(Reply{waiter.route, {}}).message;
  reply.set_request_id(waiter.request_id);
  reply.set_tx_id(std::string(tx_id));
  reply.set_status(proto::ClientReply::FAILED);
  SetError(error, &reply);
}

}  // namespace psp::sp
