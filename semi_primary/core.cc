#include "semi_primary/core.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace psp {
namespace {

constexpr std::int64_t kHelloEveryUs = 500'000;

template <class T>
void MoveTo(std::vector<T>* all, std::vector<T> some) {
  all->insert(all->end(), std::make_move_iterator(some.begin()), std::make_move_iterator(some.end()));
}

}  // namespace

SemiPrimaryCore::SemiPrimaryCore(const Options& options)
    : options_(options),
      submissions_({.commit_timeout_us = options.commit_timeout_us,
                    .disconnected_grace_us = options.disconnected_grace_us,
                    .waiting_bytes_max = options.waiting_bytes_max,
                    .local_certification = options.local_certification,
                    .names = [this](std::uint32_t table_id) { return NamesOf(table_id); },
                    .sp_name = [this](SpId sp_id) { return NameOf(sp_id); },
                    .on_decided = [this](const proto::WriteSet& write_set,
                                         const RowKey* lost) { mrv_outcomes_.Add(write_set, lost); }}),
      epochs_(options.epochs),
      saved_epochs_(options.epochs),
      watermark_(options.watermark) {
  joining_ = options.joining;
  unsure_of_own_ = options.may_lack_own;
}

SemiPrimaryCore::Actions SemiPrimaryCore::TakeActions() {
  MoveTo(&actions_.replies, submissions_.TakeReplies());
  for (proto::ToPrimary& message : submissions_.TakeMessages()) Send(std::move(message));
  return std::exchange(actions_, {});
}

void SemiPrimaryCore::Submit(const Submission& submission, std::int64_t now_us) {
  if (!joining_ && !stopped_applying()) {
    if (submission.snapshot.watermark >= own_back_t_) return submissions_.Submit(submission, now_us);
    return actions_.replies.push_back({submission.ticket, LacksOwnError()});
  }
  const UserError why =
      joining_ ? UserError{"08006", "psp: this semi-primary is joining: its copy is not complete yet", "",
                           "Nothing was sent."}
               : UserError{"08006", "psp: this semi-primary has stopped applying what others commit",
                           "Nothing was sent.",
                           "last_error in psp.status tells members of pg_monitor why. It goes on by itself "
                           "when the cause is removed."};
  actions_.replies.push_back({submission.ticket, why});
}

void SemiPrimaryCore::AskOutcome(Ticket ticket, const TxId& tx_id, std::int64_t now_us) {
  submissions_.AskOutcome(ticket, tx_id, now_us);
}

void SemiPrimaryCore::OnApplyEvent(const ApplyEvent& event, std::int64_t now_us) {
  if (const auto* started = std::get_if<ApplyStarted>(&event)) {
    OnApplyStarted(*started, now_us);
  } else if (const auto* progress = std::get_if<ApplyProgress>(&event)) {
    OnApplyProgress(*progress, now_us);
  } else if (const auto* catalog = std::get_if<ApplyCatalog>(&event)) {
    SetCatalog(catalog->catalog);
  } else if (const auto* saved = std::get_if<EpochsSaved>(&event)) {
    saved_epochs_ = saved->epochs;
    if (!going_on_) GoOn(now_us);
  } else if (const auto* trouble = std::get_if<ApplyTrouble>(&event)) {
    trouble_ = *trouble;
  } else {
    last_error_ = std::get<ApplyFailed>(event).message;
    exit_code_ = 2;
  }
}

void SemiPrimaryCore::OnApplyStarted(const ApplyStarted& started, std::int64_t now_us) {
  generation_ = started.generation;
  // What this daemon knew to be in, and is not.
  GlobalT lost_t = started.watermark < watermark_ ? watermark_ : 0;
  for (auto own = own_.upper_bound(started.watermark); own != own_.end(); ++own) {
    if (!started.own.contains(own->first)) lost_t = std::max(lost_t, own->first);
  }
  ExpectOwnBack(lost_t);
  watermark_ = started.watermark;
  joining_ = started.joining;
  catch_up_t_ = std::max(catch_up_t_, closed_t_);
  copy_received_ = false;
  copy_rows_ = -1;
  SetCatalog(started.catalog);
  position_.Reset(started.watermark);
  submissions_.OnStreamReset();
  if (joining_) own_.clear();  // the new copy will replace everything
  own_.insert(started.own.begin(), started.own.end());
  GoOn(now_us);
}

void SemiPrimaryCore::ExpectOwnBack(GlobalT own_back_t) {
  own_back_t_ = std::max(own_back_t_, own_back_t);
  submissions_.RefuseUnsentBefore(own_back_t_);
}

void SemiPrimaryCore::SetCatalog(TableCatalogPtr catalog) {
  catalog_ = std::move(catalog);
  mrv_outcomes_.SetCatalog(catalog_);
}

void SemiPrimaryCore::OnApplyProgress(const ApplyProgress& progress, std::int64_t now_us) {
  if (progress.generation != generation_) return;
  watermark_ = progress.watermark;
  durable_ = progress.durable;
  joining_ = progress.joining;
  copied_rows_ = progress.copied_rows;
  own_.erase(own_.begin(), own_.upper_bound(watermark_));
  submissions_.OnApplied(watermark_);
  if (joining_) SendHeartbeat(now_us);  // the primary sends more of the table
  Acknowledge();
}

void SemiPrimaryCore::OnTime(std::int64_t now_us) {
  submissions_.OnTime(now_us);
  if (connected() && now_us - heard_us_ > options_.heartbeat_timeout_us) Disconnect("it is silent");
  SayIfAlone(now_us);
  if (generation_ != 0 && (!connected() || asking_name_) &&
      (hello_us_ == 0 || now_us - hello_us_ >= kHelloEveryUs)) {
    SayHello(now_us);
  }
  if (connected() && now_us - heartbeat_us_ >= heartbeat_interval_us_) SendHeartbeat(now_us);
  if (!stream_failure_.empty() && now_us - recover_us_ > kRecoverAgainUs) Recover(now_us);
  Acknowledge();
  if (watermark_ >= closed_t_) behind_since_us_ = 0;
}

void SemiPrimaryCore::Stop() {
  stopping_ = true;
  submissions_.Stop();
}

void SemiPrimaryCore::GiveUp() { submissions_.OnTime(INT64_MAX); }

void SemiPrimaryCore::SayGoodbye() {
  proto::ToPrimary goodbye;
  goodbye.mutable_goodbye();
  Send(std::move(goodbye));
}

// Durable W, when the primary does not know it yet. After Recover, by which it learns who joins and has
// nothing.
void SemiPrimaryCore::Acknowledge() {
  if (!going_on_ || durable_ <= acked_) return;
  proto::ToPrimary ack;
  ack.mutable_ack()->set_watermark(durable_);
  Send(std::move(ack));
  acked_ = durable_;
}

// Nothing is sent when there is no connection: everything open is sent again after the next Welcome.
void SemiPrimaryCore::Send(proto::ToPrimary message) {
  if (!connected()) return;
  message.set_epoch(epoch_);
  actions_.messages.push_back(std::move(message));
}

KeyNames SemiPrimaryCore::NamesOf(std::uint32_t table_id) const {
  KeyNames names;
  if (!catalog_) return names;
  const auto guard = catalog_->guards.find(table_id);
  if (guard != catalog_->guards.end()) names.index_name = guard->second.index_name;
  const auto table =
      catalog_->tables.find(guard == catalog_->guards.end() ? table_id : guard->second.table_id);
  if (table == catalog_->tables.end()) return names;
  names.schema_name = table->second.schema_name;
  names.table_name = table->second.table_name;
  names.key_columns = table->second.key_names;
  return names;
}

std::string SemiPrimaryCore::NameOf(SpId sp_id) const {
  const auto name = sp_names_.find(sp_id);
  return name == sp_names_.end() ? std::to_string(sp_id) : name->second;
}

std::string SemiPrimaryCore::StateName() const {
  if (exit_code_ != 0 || stopped_applying()) return "failed";
  if (stopping_) return "stopped";
  if (!trouble_.message.empty()) return "retrying";
  if (!connected()) return "disconnected";
  if (joining_) return "joining";
  return !going_on_ || recovering_ || lacks_own() || watermark_ < catch_up_t_ ? "recovering" : "streaming";
}

DaemonStatus SemiPrimaryCore::Status(std::int64_t now_us) const {
  DaemonStatus status;
  status.state = StateName();
  status.watermark = watermark_;
  status.closed_t = closed_t_;
  status.lag_ms = behind_since_us_ == 0 ? 0 : (now_us - behind_since_us_) / 1000;
  status.commits_total = submissions_.counters().commits_total;
  status.aborts_total = submissions_.counters().aborts_total;
  status.rtt_ms = rtt_ms_;
  status.epoch = epoch_;
  status.waiting = submissions_.waiting();
  status.join_rows_done = copied_rows_;
  status.join_rows_total = copy_rows_total_;
  status.generation = generation_;
  status.lacks_own = lacks_own();
  status.last_error = !trouble_.message.empty()  ? trouble_.message
                      : !stream_failure_.empty() ? stream_failure_
                                                 : last_error_;
  return status;
}

void SemiPrimaryCore::Say(Note::Level level, std::string text) {
  actions_.notes.push_back({level, std::move(text)});
}

}  // namespace psp
