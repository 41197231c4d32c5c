#include "semi_primary/apply/apply_core.h"

#include <algorithm>

#include "embedded/constants.h"
#include "semi_primary/apply/reaction.h"

namespace psp::sp {
namespace {

constexpr std::int64_t kLookAliveUs = 1'000'000;
constexpr std::size_t kRefusalsMax = 20;  // of one transaction
constexpr char kWaysOut[] = "; ways out: docs/operating.md, \"When applying has stopped\"";

constexpr char kPromoted[] =
    "`database` leads to a standby that was promoted since this daemon started: its next start serves that "
    "one";
constexpr char kOtherDatabase[] =
    "`database` leads to another database than when this daemon started: nothing is written there. Let it "
    "lead to the same one again, or restart the daemon if this one is to be served now";

bool ChangesSchema(const std::shared_ptr<const proto::WriteSet>& write_set) {
  return write_set && write_set->kind() == proto::ENTRY_SCHEMA_CHANGE;
}

std::vector<bool> SchemaChangesIn(const std::vector<ApplyTransaction>& transactions) {
  std::vector<bool> result;
  for (const ApplyTransaction& one : transactions) result.push_back(ChangesSchema(one.write_set));
  return result;
}

}  // namespace

ApplyCore::ApplyCore(Options options, std::function<void(ApplyEvent)> report)
    : options_(std::move(options)), report_(std::move(report)), trouble_(report_, options_.time_of_day) {}

ApplyRequest ApplyCore::Next(std::int64_t now_us) {
  if (pause_) return *pause_;
  switch (state_) {
    case State::kConnect:
      return ConnectSession{};
    case State::kPosition:
      return ReadPosition{};
    case State::kClaim:
      return ClaimApply{};
    case State::kIdle:
      return TakeSteps{!joining_ && durable_ < watermark_ ? durable_at_us_ + options_.ack_interval_us
                                                          : now_us + kLookAliveUs};
    case State::kProofs:
      if (options_.views_mode && wanting_since_us_ == 0) wanting_since_us_ = now_us;
      return *own_->Next();
    case State::kCatalog:
      return ReadCatalog{segments_.is_open()};
    case State::kRows: {
      if (wanting_since_us_ == 0) wanting_since_us_ = now_us;
      end_.durable = !copy_ && DurableIsDue(now_us);
      RunStatements run = copy_ ? CopyStatements() : BatchStatements();
      // Giving way in each deadlock could go on for ever, where one local transaction after the other locks the
      // rows in another order. Then PostgreSQL tells the local one 40P01, after its own deadlock_timeout, or
      // the blocker watch ends it.
      if (now_us - wanting_since_us_ >= options_.conflict_grace_us) {
        run.statements.insert(run.statements.begin(), InsistOnLocks{});
      }
      return run;
    }
    case State::kDurable:
      end_ = {watermark_, watermark_, true, false};
      return RunStatements{{end_}};
    case State::kAlive:
      return LookAlive{};
    case State::kEnded:
      break;
  }
  return EndWorker{};
}

void ApplyCore::OnConnected() { state_ = State::kPosition; }

void ApplyCore::OnPosition(PgResult<ApplyPosition> position) {
  if (!position) {
    OnError(position.error());
    // A cause that has been removed shows in a new session.
    if (state_ == State::kPosition) BeginAgain(pause_ ? pause_->ms : 0);
    return;
  }
  if (position->place != Place::kSame) {
    const bool was_promoted = position->place == Place::kPromoted;
    const std::string message = was_promoted ? kPromoted : kOtherDatabase;
    notes_.push_back({was_promoted ? Note::Level::kWarning : Note::Level::kCritical, message});
    state_ = State::kEnded;
    return report_(ApplyFailed{message, was_promoted});
  }
  watermark_ = position->watermark;
  joining_ = position->joining;
  durable_ = -1;
  durable_at_us_ = 0;
  copied_rows_ = 0;
  copy_number_ = 0;
  complete_t_ = INT64_MAX;
  catalog_ = position->catalog;
  catalog_is_early_ = joining_;
  losses_ = 0;
  state_ = options_.views_mode ? State::kIdle : State::kClaim;
  report_(ApplyStarted{++generation_, watermark_, joining_, catalog_, std::move(position->own)});
  trouble_.Began();
}

void ApplyCore::OnClaimed(const PgResult<Done>& claimed) {
  if (claimed) {
    state_ = State::kIdle;
    return;
  }
  OnError(claimed.error());
  if (state_ == State::kClaim) BeginAgain(pause_ ? pause_->ms : 0);
}

void ApplyCore::OnCatalog(PgResult<TableCatalogPtr> catalog) {
  if (!catalog) return OnError(catalog.error());
  if (segments_.is_open()) {
    segments_.SetCatalog(*catalog);
    return Build();
  }
  catalog_ = *catalog;
  catalog_is_early_ = joining_;
  report_(ApplyCatalog{catalog_});
  if (parts_) return BeginPart();
  state_ = State::kIdle;
}

void ApplyCore::OnSteps(std::vector<ApplyStep> steps, std::int64_t now_us) {
  std::erase_if(steps, [this](const ApplyStep& step) { return step.generation != generation_; });
  if (steps.empty()) {
    state_ = DurableIsDue(now_us) ? State::kDurable : State::kAlive;
    return;
  }
  catalog_was_read_ = false;
  if (steps[0].copied_rows) {
    copy_ = std::move(steps[0]);
    parts_.emplace(std::vector<bool>{ChangesSchema(copy_->copied_rows)});
    return BeginPart();
  }
  closed_t_ = steps.back().closed_t;
  std::vector<ApplyTransaction> transactions;
  for (ApplyStep& step : steps) {
    std::ranges::move(step.transactions, std::back_inserter(transactions));
  }
  own_change_ = std::ranges::any_of(
      transactions, [](const ApplyTransaction& one) { return one.own && ChangesSchema(one.write_set); });
  const bool has_change = std::ranges::any_of(
      transactions, [](const ApplyTransaction& one) { return ChangesSchema(one.write_set); });
  own_.emplace(std::move(transactions), options_.views_mode);
  if (!options_.views_mode && !has_change) {
    to_prove_ = own_->own();
    return BeginBatch(own_->WithoutOwnRows());
  }
  state_ = State::kProofs;
  NextProof();
}

void ApplyCore::NextProof() {
  for (Note& note : own_->TakeNotes()) notes_.push_back(std::move(note));
  if (!own_->lacks_rows().empty()) return OnError({PgReaction::kReconnect, "", own_->lacks_rows()});
  if (own_->Next()) return;
  std::vector<ApplyTransaction> transactions = own_->TakeTransactions();
  own_.reset();
  BeginBatch(std::move(transactions));
}

void ApplyCore::BeginBatch(std::vector<ApplyTransaction> transactions) {
  transactions_ = std::move(transactions);
  wanting_since_us_ = 0;
  parts_.emplace(SchemaChangesIn(transactions_));
  if (own_change_) {
    state_ = State::kCatalog;  // it is in
  } else {
    BeginPart();
  }
}

void ApplyCore::OnMissingProofs(const PgResult<std::vector<GlobalT>>& missing) {
  if (!missing) return OnError(missing.error());
  own_->OnMissingProofs(*missing);
  NextProof();
}

void ApplyCore::OnBackend(const PgResult<bool>& has_ended) {
  if (!has_ended) return OnError(has_ended.error());
  own_->OnBackend(*has_ended);
  NextProof();
}

void ApplyCore::OnTemporaryRows(const PgResult<Done>& applied) {
  if (!applied) {
    if (ReactionTo(applied.error()) != ApplyReaction::kStop) return OnError(applied.error());
    notes_.push_back({Note::Level::kWarning, "apply: " + applied.error().message});
  }
  losses_ = 0;
  own_->OnTemporaryRows();
  NextProof();
}

// Also after an error, which has rolled back the part's segments and the catalog that they have made.
void ApplyCore::BeginPart() {
  segments_ =
      parts_->is_schema_change() && !copy_ ? Segments(*transactions_[parts_->begin()].write_set) : Segments();
  Build();
}

// The segment's rows as arrays of records. A table that is not known may have come since the catalog was read.
void ApplyCore::Build() {
  std::vector<WrittenRows> written;
  if (copy_) {
    written.push_back({copy_->closed_t, copy_->copied_rows.get()});
  } else {
    for (std::size_t i = parts_->begin(); i < parts_->end(); ++i) {
      const ApplyTransaction& one = transactions_[i];
      if (one.write_set) written.push_back({one.global_t, one.write_set.get(), segments_.now()});
    }
  }
  const TableCatalogPtr& catalog = segments_.catalog() ? segments_.catalog() : catalog_;
  auto changes = BuildBatch(*catalog, written, parts_->replace_all());
  if (changes) {
    changes_ = std::move(*changes);
    advisory_locks_ = AdvisoryLocksOf(written);
    state_ = State::kRows;
  } else if (changes.error().catalog_may_be_old && !catalog_was_read_ && !segments_.is_open()) {
    catalog_was_read_ = true;
    state_ = State::kCatalog;
  } else {
    FailedByItself("", changes.error().message);
  }
}

RunStatements ApplyCore::BatchStatements() {
  RunStatements run{{}, segments_.is_open(), !segments_.is_last(), to_prove_};
  if (!advisory_locks_.empty() && !options_.views_mode)
    run.statements.emplace_back(TakeAdvisoryLocks{advisory_locks_});
  if (auto aside = AsideStatement()) run.statements.emplace_back(*std::move(aside));
  AppendRows(changes_, false, &run.statements);
  if (run.stays_open) {
    run.statements.emplace_back(ResetSession{});
    return run;
  }
  for (std::size_t i = parts_->begin(); options_.views_mode && i < parts_->end(); ++i) {
    const ApplyTransaction& one = transactions_[i];
    if (one.own && one.write_set) run.statements.emplace_back(ResolveOwn{one.tx_id, one.global_t});
  }
  const GlobalT upto = parts_->is_last() ? closed_t_ : transactions_[parts_->end() - 1].global_t;
  end_ = {watermark_, upto, end_.durable, joining_ && upto >= complete_t_};
  run.statements.emplace_back(end_);
  return run;
}

// The copy has each key once and begins with empty tables. A row that a statement of a schema change has written is met as by any
// batch: the INSERT fails, and the rows are replaced.
RunStatements ApplyCore::CopyStatements() const {
  RunStatements run;
  if (copy_->copy_begins) {
    for (const auto& [id, table] : catalog_->tables) run.statements.emplace_back(ClearTable{id});
    run.statements.emplace_back(BeginCopy{});
  }
  if (auto aside = AsideStatement()) run.statements.emplace_back(*std::move(aside));
  AppendRows(changes_, true, &run.statements);
  if (copy_->copy_is_complete) {
    const GlobalT upto = copy_->closed_t;
    run.statements.emplace_back(EndBatch{upto, upto, false, copy_->complete_t <= upto});
  } else {
    run.statements.emplace_back(ResetSession{});
  }
  return run;
}

void ApplyCore::OnStatements(const PgResult<std::vector<GlobalT>>& missing, std::int64_t now_us) {
  if (!missing) return OnError(missing.error());
  if (state_ == State::kRows) to_prove_.clear();
  if (!missing->empty()) {
    wanting_since_us_ = 0;
    state_ = State::kProofs;
    return OnMissingProofs(missing);
  }
  if (state_ == State::kRows && !segments_.is_last()) return AfterSegment();
  losses_ = 0;
  times_ended_ = 0;
  wanting_since_us_ = 0;
  if (!refusals_.empty()) {
    notes_.push_back(
        {Note::Level::kWarning, "apply: it goes on; psp.status.warnings tells of what has made way"});
    refusals_.clear();
  }
  if (state_ == State::kRows && copy_) {
    AfterCopy();
  } else {
    watermark_ = end_.upto;
    if (end_.joined) joining_ = false;
    if (end_.durable) {
      durable_ = watermark_;
      durable_at_us_ = now_us;
    }
  }
  Report();
  trouble_.Succeeded(watermark_);
  if (state_ == State::kRows) {
    AfterBatch();
  } else {
    state_ = State::kIdle;
  }
}

void ApplyCore::OnTookTooLong(const PgError& error) {
  ++times_ended_;
  const bool has_session = ReactionTo(error) != ApplyReaction::kBegin;
  if (times_ended_ == 1 && has_session) return OnError(error);
  wanting_since_us_ = 0;
  if (has_session && parts_ && parts_->end() - parts_->begin() > 1 && parts_->TrySmaller()) {
    times_ended_ = 1;
    notes_.push_back({Note::Level::kWarning,
                      "apply: " + error.sqlstate + " " + error.message + "; trying in smaller parts"});
    return BeginPart();
  }
  if (times_ended_ == 2 && has_session && TrySettingAside(error.sqlstate, error.message)) return BeginPart();
  Stopped(watermark_, {PgReaction::kAbort, error.sqlstate, error.message}, kWaysOut);
}

// The transaction is open, and has its locks.
void ApplyCore::AfterSegment() {
  if (!segments_.Next()) return Build();
  state_ = State::kCatalog;
}

void ApplyCore::AfterCopy() {
  copied_rows_ = copy_->rows_done;
  copy_number_ = copy_->copy_number;
  if (copy_->copy_begins) watermark_ = -1;
  if (!copy_->copy_is_complete) return;
  watermark_ = copy_->closed_t;
  complete_t_ = copy_->complete_t;
  joining_ = watermark_ < complete_t_;
}

void ApplyCore::AfterBatch() {
  catalog_was_read_ = false;
  segments_ = Segments();
  const bool has_changed = parts_->is_schema_change();
  const bool has_more = parts_->NextPart();
  if (!has_more) GoIdle();
  if (has_changed || (!has_more && catalog_is_early_ && !joining_)) {
    state_ = State::kCatalog;
  } else if (has_more) {
    BeginPart();
  }
}

void ApplyCore::GoIdle() {
  state_ = State::kIdle;
  parts_.reset();
  segments_ = Segments();
  copy_.reset();
  own_.reset();
  to_prove_.clear();
  transactions_.clear();
  changes_.clear();
  refusals_.clear();
  times_ended_ = 0;
  wanting_since_us_ = 0;
}

void ApplyCore::OnLookAlive(const PgResult<Done>& alive) {
  if (!alive) return OnError(alive.error());
  state_ = State::kIdle;
  trouble_.Succeeded(watermark_);
}

bool ApplyCore::DurableIsDue(std::int64_t now_us) const {
  return !joining_ && durable_ < watermark_ && now_us - durable_at_us_ >= options_.ack_interval_us;
}

void ApplyCore::Stop() {
  const bool is_connected = state_ != State::kConnect && state_ != State::kPosition &&
                            state_ != State::kClaim && state_ != State::kEnded;
  const bool owes = is_connected && !joining_ && durable_ < watermark_;
  GoIdle();
  pause_.reset();
  state_ = owes ? State::kDurable : State::kEnded;
}

void ApplyCore::OnError(const PgError& error) {
  switch (ReactionTo(error)) {
    case ApplyReaction::kAgain: {
      const std::int64_t pause_ms = PauseAfterLosses(++losses_);
      if (pause_ms >= kToldPauseMs) trouble_.Waits(error);
      if (pause_ms > 0) pause_ = Pause{pause_ms};
      break;
    }
    case ApplyReaction::kWait:
      wanting_since_us_ = 0;
      trouble_.Waits(error);
      pause_ = Pause{trouble_.NextPauseMs()};
      break;
    case ApplyReaction::kStop:
      if (state_ == State::kRows || segments_.is_open()) {
        return FailedByItself(error.sqlstate, error.message);
      }
      return Stopped(state_ == State::kProofs ? watermark_ : Trouble::kAnySuccess, error, "");
    case ApplyReaction::kBegin:
      notes_.push_back({Note::Level::kWarning, "apply: " + error.sqlstate + " " + error.message});
      return BeginAgain(trouble_.NextPauseMs());
  }
  if (segments_.is_open()) BeginPart();
}

void ApplyCore::FailedByItself(const std::string& sqlstate, const std::string& message) {
  wanting_since_us_ = 0;
  if (!parts_->TrySmaller()) {
    if (joining_ && !copy_ && parts_->is_schema_change()) return CopyAgain(sqlstate, message);
    if (!TrySettingAside(sqlstate, message))
      return Stopped(watermark_, {PgReaction::kAbort, sqlstate, message}, kWaysOut);
    return BeginPart();
  }
  notes_.push_back(
      {Note::Level::kWarning, "apply: " + sqlstate + " " + message + "; trying in smaller parts"});
  BeginPart();
}

// Of a statement psp.set_aside says at once, by the same error, that nothing stands in its way.
bool ApplyCore::TrySettingAside(const std::string& sqlstate, const std::string& message) {
  std::string refusal = sqlstate + " " + message;
  if (options_.views_mode || sqlstate.empty() || changes_.empty() || refusals_.size() == kRefusalsMax ||
      std::ranges::find(refusals_, refusal, &Refusal::text) != refusals_.end())
    return false;
  notes_.push_back({Note::Level::kWarning, "apply: " + refusal + "; trying without what refuses it"});
  refusals_.push_back({std::move(refusal), segments_.now().has_statements});
  return true;
}

std::optional<SetAside> ApplyCore::AsideStatement() const {
  SetAside aside;
  for (const Refusal& refusal : refusals_)
    if (refusal.of_statement == segments_.now().has_statements) aside.refusals.push_back(refusal.text);
  if (aside.refusals.empty()) return std::nullopt;
  for (const TableChange& change : changes_) aside.table_ids.push_back(change.table->table_id);
  return aside;
}

// The copy is not a whole state yet: it lacks rows that have changed since its snapshot, so a foreign key may
// not hold here that holds everywhere else. In a copy of a later snapshot the statement comes before all rows.
void ApplyCore::CopyAgain(const std::string& sqlstate, const std::string& message) {
  notes_.push_back({Note::Level::kWarning, "apply: a schema change cannot run on an incomplete copy: " +
                                               sqlstate + " " + message + "; the copy begins again"});
  BeginAgain(trouble_.NextPauseMs());
}

// In a new session: the cause may have been a setting of the database or a right.
void ApplyCore::Stopped(GlobalT blocked_at, const PgError& error, std::string_view remedy) {
  trouble_.Stops(blocked_at, error, remedy);
  BeginAgain(trouble_.NextPauseMs());
}

void ApplyCore::BeginAgain(std::int64_t pause_ms) {
  GoIdle();
  state_ = State::kConnect;
  pause_ = Pause{pause_ms, true};
}

void ApplyCore::Report() {
  report_(ApplyProgress{generation_, watermark_, durable_, copied_rows_, joining_, copy_number_});
}

std::vector<Note> ApplyCore::TakeNotes() {
  std::vector<Note> notes = std::exchange(notes_, {});
  for (Note& note : trouble_.TakeNotes()) notes.push_back(std::move(note));
  return notes;
}

}  // namespace psp::sp
