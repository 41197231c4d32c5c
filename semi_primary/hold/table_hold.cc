#include "semi_primary/hold/table_hold.h"

#include <algorithm>

namespace psp::sp {
namespace {

constexpr std::int64_t kAnswerAfterUs = 200'000;
constexpr std::uint64_t kNextAttempt = 0;  // in place of a transaction
constexpr std::uint32_t kNextAttemptMs = 2000;

UserError NoPrimary() {
  return {"08006", "psp: the primary cannot be reached", "Nothing was sent.", "Retry the transaction."};
}

}  // namespace

void TableHold::Ask(const HoldRequest& request, GlobalT watermark, GlobalT closed_t, std::int64_t now_us) {
  if (asked_ && asked_->transaction != request.transaction) OnTransactionEnded(asked_->transaction);
  asker_ = request.ticket;
  since_us_ = now_us;
  if (!connected_) return Answer(NoPrimary());
  if (!asked_)
    asked_ = Asked{request.transaction, {}, request.timeout_ms, closed_t, 0, 0, std::nullopt, false};
  const std::size_t known = asked_->table_ids.size();
  asked_->table_ids.insert(request.table_ids.begin(), request.table_ids.end());
  if (asked_->first_id != 0 && !asked_->ended && asked_->table_ids.size() > known) Send();
  GoOn(watermark);
}

void TableHold::AskerGone(Ticket ticket) {
  if (asker_ == ticket) asker_ = 0;
}

void TableHold::OnTransactionEnded(std::uint64_t transaction) {
  if (!asked_ || asked_->transaction != transaction) return;
  asked_.reset();
  messages_.emplace_back().mutable_end_hold()->set_transaction(transaction);
}

void TableHold::OnLost(std::set<std::uint32_t> table_ids, GlobalT watermark, GlobalT closed_t) {
  if (table_ids.empty() || !connected_ || transaction()) return;
  if (asked_ && asked_->transaction == kNextAttempt && !asked_->ended &&
      std::ranges::includes(asked_->table_ids, table_ids)) {
    return;
  }
  if (asked_) OnTransactionEnded(kNextAttempt);
  asked_ = Asked{kNextAttempt, std::move(table_ids), kNextAttemptMs, closed_t, 0, 0, std::nullopt, false};
  GoOn(watermark);
}

void TableHold::OnCommitted() {
  if (asked_ && asked_->transaction == kNextAttempt) asked_.reset();  // the primary has ended it
}

void TableHold::OnConnected() {
  connected_ = true;
  if (asked_ && asked_->first_id != 0 && !asked_->ended) Send();
}

void TableHold::OnDisconnected() {
  connected_ = false;
  if (asked_ && asked_->transaction == kNextAttempt) asked_.reset();
  if (asker_ != 0) Answer(NoPrimary());
}

void TableHold::OnReply(const proto::HoldReply& reply, GlobalT watermark) {
  if (!asked_ || asked_->first_id == 0 || reply.hold_id() < asked_->first_id) return;
  if (reply.ended()) {
    asked_->ended = true;
  } else if (reply.hold_id() == asked_->newest_id) {
    asked_->granted_t = reply.global_t();
  }
  GoOn(watermark);
}

void TableHold::OnApplied(GlobalT watermark) { GoOn(watermark); }

void TableHold::OnTime(std::int64_t now_us) {
  if (asker_ != 0 && now_us - since_us_ >= kAnswerAfterUs) Answer(Held{false});
}

std::optional<std::uint64_t> TableHold::transaction() const {
  return asked_ && asked_->transaction != kNextAttempt ? std::optional(asked_->transaction) : std::nullopt;
}

void TableHold::GoOn(GlobalT watermark) {
  if (!asked_) return;
  if (asked_->first_id == 0 && connected_ && watermark >= asked_->ask_at_t) Send();
  const bool is_held = asked_->granted_t && watermark >= *asked_->granted_t;
  if (asker_ != 0 && (is_held || asked_->ended)) Answer(Held{true});
}

void TableHold::Send() {
  asked_->granted_t.reset();
  asked_->newest_id = ++last_id_;
  if (asked_->first_id == 0) asked_->first_id = last_id_;
  proto::Hold* hold = messages_.emplace_back().mutable_hold();
  hold->set_hold_id(asked_->newest_id);
  hold->set_transaction(asked_->transaction);
  for (const std::uint32_t table_id : asked_->table_ids) hold->add_table_ids(table_id);
  hold->set_timeout_ms(asked_->timeout_ms);
}

void TableHold::Answer(FrontAnswer answer) {
  replies_.push_back({std::exchange(asker_, 0), std::move(answer)});
}

}  // namespace psp::sp
