#include "semi_primary/core/core.h"

#include <iterator>
#include <set>
#include <utility>

#include "semi_primary/losses/loss_report.h"

namespace psp::sp {
namespace {

constexpr std::int64_t kLagMsMax = 5000;  // of a stream that is kept up with

template <class T>
void MoveTo(std::vector<T>* all, std::vector<T> some) {
  all->insert(all->end(), std::make_move_iterator(some.begin()), std::make_move_iterator(some.end()));
}

}  // namespace

Core::Core(const Options& options)
    : options_(options),
      submissions_(
          {.commit_timeout_us = options.commit_timeout_us,
           .disconnected_grace_us = options.disconnected_grace_us,
           .waiting_bytes_max = options.waiting_bytes_max,
           .local_certification = options.local_certification,
           .logged = options.logged,
           .name = options.name,
           .names = [this](std::uint32_t table_id) { return NamesOf(table_id); },
           .sp_name = [this](SpId sp_id) { return NameOf(sp_id); },
           .on_decided =
               [this](const proto::WriteSet& write_set, const RowKey* lost) {
                 mrv_outcomes_.Add(write_set, lost);
                 // Its next attempt loses again unless the winner is applied here.
                 actions_.hurry = actions_.hurry || lost != nullptr;
                 if (lost == nullptr && write_set.kind() == proto::ENTRY_SCHEMA_CHANGE) hold_.OnCommitted();
               },
           .on_lost = [this](const TxId& tx_id, const proto::WriteSet& write_set, const Conflict* conflict,
                             std::int64_t waited_us,
                             std::int64_t now_us) { OnLost(tx_id, write_set, conflict, waited_us, now_us); },
           .on_change_lost = [this](const proto::WriteSet& write_set) { OnChangeLost(write_set); }}),
      connection_(options.heartbeat_timeout_us),
      choice_(options.addresses, options.heartbeat_timeout_us),
      copy_(options.joining),
      own_(options.may_lack_own),
      progress_(options.watermark, options.standby_lag_us),
      epochs_(options.epochs),
      saved_epochs_(options.follows_any ? std::nullopt : std::optional(options.epochs)),
      follows_any_(options.follows_any) {}

Core::Actions Core::TakeActions() {
  MoveTo(&actions_.replies, submissions_.TakeReplies());
  MoveTo(&actions_.replies, hold_.TakeReplies());
  MoveTo(&actions_.replies, reach_.TakeReplies());
  MoveTo(&actions_.notes, submissions_.TakeNotes());
  for (proto::ToPrimary& message : submissions_.TakeMessages()) Send(std::move(message));
  for (proto::ToPrimary& message : hold_.TakeMessages()) Send(std::move(message));
  return std::exchange(actions_, {});
}

void Core::OnFrontRequest(const FrontRequest& request, std::int64_t now_us) {
  if (const auto* submission = std::get_if<Submission>(&request)) {
    Submit(*submission, now_us);
  } else if (const auto* question = std::get_if<OutcomeQuestion>(&request)) {
    AskOutcome(question->ticket, question->tx_id, now_us);
  } else if (const auto* hold = std::get_if<HoldRequest>(&request)) {
    Hold(*hold, now_us);
  } else if (const auto* reach = std::get_if<ReachQuestion>(&request)) {
    AskReached(*reach, now_us);
  } else if (const auto* losers = std::get_if<LosersStatements>(&request)) {
    lost_keys_.OnStatements(*losers);
  } else {
    BackendGone(std::get<AskerLeft>(request).ticket);
  }
}

std::optional<UserError> Core::RefusalOfCommits() const {
  if (copy_.joining()) {
    return UserError{"08006", "psp: this semi-primary is joining: its copy is not complete yet", "",
                     "Nothing was sent."};
  }
  if (!stopped_applying()) return std::nullopt;
  return UserError{"08006", "psp: this semi-primary has stopped applying what others commit",
                   "Nothing was sent.",
                   "last_error in psp.status tells members of pg_monitor why. It goes on by itself "
                   "when the cause is removed."};
}

void Core::Submit(const Submission& submission, std::int64_t now_us) {
  if (const auto why = RefusalOfCommits()) {
    actions_.replies.push_back({submission.ticket, *why});
  } else if (submission.snapshot.watermark < own_.back_t()) {
    actions_.replies.push_back({submission.ticket, LacksOwnError()});
  } else {
    submissions_.Submit(submission, now_us);
  }
}

void Core::Hold(const HoldRequest& request, std::int64_t now_us) {
  if (const auto why = RefusalOfCommits()) return actions_.replies.push_back({request.ticket, *why});
  actions_.hurry = true;
  hold_.Ask(request, progress_.watermark(), progress_.closed_t(), now_us);
}

void Core::AskReached(const ReachQuestion& question, std::int64_t now_us) {
  if (question.global_t <= progress_.closed_t())
    actions_.hurry = true;  // not for a number that anybody has made up
  reach_.Ask(question, progress_.watermark(), now_us);
}

void Core::OnLost(const TxId& tx_id, const proto::WriteSet& write_set, const Conflict* conflict,
                  std::int64_t waited_us, std::int64_t now_us) {
  const bool is_guard =
      conflict != nullptr && catalog_ != nullptr && catalog_->guards.contains(conflict->key.table_id);
  Loss loss = LossOf(write_set, conflict, is_guard, waited_us);
  loss.tx_id = tx_id;
  ++losses_.at(loss.kind);
  lost_keys_.OnLost(std::move(loss), now_us);
}

void Core::TellLosses(std::int64_t now_us) {
  actions_.losses = ReportLosses(
      lost_keys_, catalog_.get(), [this](std::uint32_t table_id) { return NamesOf(table_id); },
      [this](SpId sp_id) { return NameOf(sp_id); }, now_us);
  actions_.losses_catalog = catalog_ == nullptr ? 0 : catalog_->version;
  proto::ToPrimary message;
  *message.mutable_loss_report() = *actions_.losses;
  Send(std::move(message));
}

void Core::OnChangeLost(const proto::WriteSet& write_set) {
  std::set<std::uint32_t> table_ids;
  for (const auto& change : write_set.table_changes()) table_ids.insert(change.table_id());
  actions_.hurry = true;
  hold_.OnLost(std::move(table_ids), progress_.watermark(), progress_.closed_t());
}

void Core::BackendGone(Ticket ticket) {
  submissions_.BackendGone(ticket);
  hold_.AskerGone(ticket);
  reach_.AskerGone(ticket);
}

void Core::AskOutcome(Ticket ticket, const TxId& tx_id, std::int64_t now_us) {
  submissions_.AskOutcome(ticket, tx_id, now_us);
}

void Core::OnApplyEvent(const ApplyEvent& event, std::int64_t now_us) {
  if (const auto* started = std::get_if<ApplyStarted>(&event)) {
    OnApplyStarted(*started, now_us);
  } else if (const auto* progress = std::get_if<ApplyProgress>(&event)) {
    OnApplyProgress(*progress, now_us);
  } else if (const auto* catalog = std::get_if<ApplyCatalog>(&event)) {
    SetCatalog(catalog->catalog);
  } else if (const auto* saved = std::get_if<EpochsSaved>(&event)) {
    saved_epochs_ = saved->epochs;
    if (!serving_) ServeWhenEpochsAreSaved(now_us);
  } else if (const auto* ended = std::get_if<HoldingTransactionEnded>(&event)) {
    hold_.OnTransactionEnded(ended->transaction);
  } else if (const auto* trouble = std::get_if<ApplyTrouble>(&event)) {
    trouble_ = *trouble;
  } else {
    const auto& failed = std::get<ApplyFailed>(event);
    last_error_ = failed.message;
    exit_code_ = failed.begins_again ? 1 : 2;
  }
}

void Core::OnApplyStarted(const ApplyStarted& started, std::int64_t now_us) {
  own_.OnApplyStarted(progress_.watermark(), started.watermark, started.own, started.joining);
  progress_.OnApplyStarted(started.watermark);
  copy_.OnApplyStarted(started.joining);
  stream_.Restart(started.generation, started.watermark);
  SetCatalog(started.catalog);
  submissions_.RefuseUnsentBefore(own_.back_t());
  submissions_.OnStreamReset();
  ServeWhenEpochsAreSaved(now_us);
}

void Core::SetCatalog(TableCatalogPtr catalog) {
  catalog_ = std::move(catalog);
  mrv_outcomes_.SetCatalog(catalog_);
}

void Core::OnApplyProgress(const ApplyProgress& progress, std::int64_t now_us) {
  if (progress.generation != stream_.generation()) return;
  progress_.OnApplied(copy_.Counts(progress) ? progress.watermark : -1, progress.durable, now_us);
  copy_.OnApplyProgress(progress.joining, progress.copied_rows);
  own_.OnApplied(progress.watermark);
  submissions_.OnApplied(progress.watermark, now_us);
  hold_.OnApplied(progress_.watermark());
  reach_.OnApplied(progress_.watermark());
  if (copy_.joining()) SendHeartbeat(now_us);  // the primary sends more of the table
  SendAck(now_us);
}

void Core::OnTime(std::int64_t now_us) {
  submissions_.OnTime(now_us);
  hold_.OnTime(now_us);
  reach_.OnTime(now_us);
  if (connection_.IsSilent(now_us)) Disconnect("it is silent");
  // A wrong address looks like a primary that has not started yet. So the operator is told, once.
  if (stream_.has_started() && connection_.TakeNoAnswer(now_us)) {
    last_error_ =
        "the primary has not answered yet: is psp-primary running, is `primary` its address, and is "
        "`key_file` a copy of its key?";
    primary_lacks_ = false;
    AddNote(Note::Level::kWarning, "no_answer", last_error_);
  }
  if (stream_.has_started() && choice_.LookIsDue(connected(), now_us)) Look(now_us);
  if (stream_.has_started() && choice_.has_choice(now_us) && connection_.HelloIsDue(now_us))
    SendHello(now_us);
  if (connection_.HeartbeatIsDue(now_us)) SendHeartbeat(now_us);
  if (stream_.RetryIsDue(now_us)) RequestStream(now_us);
  if (lost_keys_.TakeNews(now_us)) TellLosses(now_us);
  SendAck(now_us);
}

void Core::Stop() {
  stopping_ = true;
  submissions_.Stop();
}

void Core::GiveUp() { submissions_.OnTime(INT64_MAX); }

KeyNames Core::NamesOf(std::uint32_t table_id) const {
  KeyNames names;
  if (!catalog_) return names;
  const auto foreign_keys = catalog_->foreign_keys.find(table_id);
  if (foreign_keys != catalog_->foreign_keys.end()) names.foreign_keys = foreign_keys->second;
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

std::string Core::NameOf(SpId sp_id) const {
  const auto name = sp_names_.find(sp_id);
  return name == sp_names_.end() ? std::to_string(sp_id) : name->second;
}

std::string Core::WhyNoCommit(std::int64_t now_us) const {
  if (exit_code_ != 0) return "psp-semi-primary ends: its log tells why";
  if (stopping_) return "psp-semi-primary is stopping";
  if (copy_.joining()) return "this semi-primary is joining";
  if (stopped_applying()) return "this semi-primary has stopped applying what others commit";
  if (!trouble_.message.empty()) return "applying what others commit fails, and is tried again";
  if (primary_lacks_) return "the primary can decide nothing";
  // While the primary is away for planned work, a COMMIT waits, and is answered.
  if ((!connected() || !serving_) && !submissions_.is_paused(now_us))
    return "this semi-primary is not connected to the primary";
  if (!standstill_.empty()) return "the primary can decide nothing";
  return lacks_own() ? "commits that a crash has taken here are not back yet" : "";
}

bool Core::has_caught_up() const {
  return serving_ && !stream_.requested() && !lacks_own() && progress_.has_caught_up();
}

std::string Core::StateName(std::int64_t now_us) const {
  if (exit_code_ != 0 || stopped_applying()) return "failed";
  if (stopping_) return "stopped";
  if (!trouble_.message.empty()) return "retrying";
  if (primary_lacks_) return "blocked";
  if (!connected()) return submissions_.is_paused(now_us) ? "paused" : "disconnected";
  if (!standstill_.empty()) return "blocked";
  if (copy_.joining()) return "joining";
  return has_caught_up() && progress_.LagMs(now_us) < kLagMsMax ? "streaming" : "catchup";
}

DaemonStatus Core::Status(std::int64_t now_us) const {
  DaemonStatus status;
  status.state = StateName(now_us);
  status.watermark = progress_.watermark();
  status.closed_t = progress_.closed_t();
  status.lag_ms = progress_.LagMs(now_us);
  status.has_caught_up = has_caught_up();
  status.commits_total = submissions_.counters().commits_total;
  status.aborts_total = submissions_.counters().aborts_total;
  status.losses_total = submissions_.counters().losses_total;
  status.reserved = reserved_;
  status.rtt_ms = static_cast<double>(connection_.rtt_us()) / 1000.0;
  status.epoch = connection_.epoch();
  status.waiting = submissions_.waiting();
  status.recent = submissions_.times().recent.Sums(now_us);
  status.join_rows_done = copy_.rows_applied();
  status.join_rows_total = copy_.rows_total();
  status.generation = stream_.generation();
  status.can_commit = WhyNoCommit(now_us).empty();
  status.lacks_own = lacks_own();
  status.last_error = !trouble_.message.empty() ? trouble_.message
                      : stream_.has_failed()    ? stream_.failure()
                      : !standstill_.empty()    ? standstill_
                                                : last_error_;
  return status;
}

CoreNumbers Core::Numbers(std::int64_t now_us) const {
  return {.status = Status(now_us),
          .commits = submissions_.counters(),
          .losses = losses_,
          .times = submissions_.times(),
          .waiting_bytes = submissions_.bytes(),
          .holds_tables = hold_.transaction().has_value()};
}

void Core::AddNote(Note::Level level, std::string_view event, std::string text) {
  actions_.notes.push_back({level, std::move(text), false, event});
}

}  // namespace psp::sp
