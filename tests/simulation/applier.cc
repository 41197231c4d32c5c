#include "tests/simulation/applier.h"

#include <algorithm>
#include <set>

namespace psp::simulation {
namespace {

constexpr std::int64_t kConflictGraceUs = 150'000;
constexpr std::int64_t kAckIntervalUs = 250'000;
const PgError kLost{PgReaction::kReconnect, "", "the session is lost"};

sp::ApplyCore::Options CoreOptions() {
  sp::ApplyCore::Options options;
  options.ack_interval_us = kAckIntervalUs;
  options.conflict_grace_us = kConflictGraceUs;
  options.time_of_day = [] { return std::string("now"); };
  return options;
}

std::set<RowKey> KeysOf(const proto::WriteSet& write_set) {
  std::set<RowKey> keys;
  for (const proto::Row& row : write_set.rows()) keys.insert({row.table_id(), row.key()});
  return keys;
}

// What a transaction makes of the database, statement by statement.
class Transaction {
 public:
  Transaction(Simulator* sim, const Scenario& scenario, SpState state)
      : next(std::move(state)), sim_(*sim), scenario_(scenario) {}

  SpState next;
  bool durable = false;

  void operator()(const sp::InsistOnLocks& /*statement*/) {}
  void operator()(const sp::SetAside& /*statement*/) {}  // nothing here refuses rows
  void operator()(const sp::ClearTable& clear) {
    if (scenario_.mutation == Mutation::kCopyIsNotCleared) return;
    std::erase_if(next.rows, [&](const auto& row) { return row.first.table_id == clear.table_id; });
  }
  void operator()(const sp::BeginCopy& /*statement*/) { next.watermark = -1; }
  void operator()(const sp::DeleteRows& rows) {
    BeforeTheEnd();
    for (const RowKey& key : UnpackKeys(rows.table_id, rows.keys)) next.rows.erase(key);
  }
  void operator()(const sp::MakeWay& /*statement*/) {}  // they are written next
  void operator()(const sp::WriteRows& rows) {
    BeforeTheEnd();
    for (const auto& [key, image] : UnpackRows(rows.table_id, rows.rows)) {
      next.Put(key, image);
      written_.push_back(key);
    }
    changes_schema_ = changes_schema_ || rows.table_id == kHistoryTable;
  }
  void operator()(const sp::ResolveOwn& /*statement*/) { sim_.Violation("views mode is not simulated"); }
  void operator()(const sp::TakeAdvisoryLocks& /*statement*/) {}  // no client here takes any
  void operator()(const sp::ResetSession& /*statement*/) { is_reset_ = true; }
  void operator()(const sp::EndBatch& end) {
    is_reset_ = true;
    durable = end.durable;
    next.watermark = end.upto;
    if (end.joined) next.joining = false;
    std::erase_if(next.applied, [&](const auto& one) { return one.first <= next.watermark; });
  }

  // What COMMIT finds. `taken`: what the stream has brought.
  void Check(const std::vector<sp::ApplyTransaction>& taken) const {
    if (changes_schema_) CheckIsAlone(taken);
    if (!is_reset_) sim_.Violation("what the owners' code left in the session is there at COMMIT");
    std::set<std::int64_t> values;
    for (const auto& [key, row] : next.rows) {
      if (key.table_id == kNames && !values.insert(ValueOf(row.image)).second) {
        sim_.Violation("apply up to ", next.watermark, " violates the unique index");
      }
    }
  }

 private:
  void BeforeTheEnd() const {
    if (is_reset_) sim_.Violation("rows are written after the end of their batch");
  }

  // A schema change runs after all rows that are before it in the stream, and before all that come after it.
  void CheckIsAlone(const std::vector<sp::ApplyTransaction>& taken) const {
    for (const sp::ApplyTransaction& one : taken) {
      if (!one.write_set) continue;
      const std::set<RowKey> keys = KeysOf(*one.write_set);
      const bool is_among = std::ranges::any_of(
          written_, [&](const RowKey& key) { return key.table_id == kHistoryTable && keys.contains(key); });
      for (const RowKey& key : written_) {
        if (is_among && !keys.contains(key))
          sim_.Violation(Text(key), " is applied together with schema change ", one.global_t);
      }
    }
  }

  Simulator& sim_;
  const Scenario& scenario_;
  bool is_reset_ = false;
  bool changes_schema_ = false;
  std::vector<RowKey> written_;
};

}  // namespace

Applier::Applier(Simulator* sim, const Scenario& scenario, SpDatabase* database, Hooks hooks)
    : sim_(*sim),
      scenario_(scenario),
      database_(*database),
      hooks_(std::move(hooks)),
      core_(CoreOptions(), [this](sp::ApplyEvent event) { Report(std::move(event)); }) {
  sim_.After(0, alive_, [this] { Next(); });
}

void Applier::Report(sp::ApplyEvent event) {
  report_free_us_ = std::max(report_free_us_, sim_.now_us() + sim_.Between(0, 2'000));
  sim_.At(report_free_us_, alive_, [this, event = std::move(event)] { hooks_.report(event); });
}

void Applier::Next() {
  if (is_asking_ || stalled_) return;
  is_asking_ = true;
  request_ = core_.Next(sim_.now_us());
  for (const Note& note : core_.TakeNotes()) sim_.Trace(note.text);
  std::visit([this](const auto& request) { Do(request); }, sp::ApplyRequest(request_));
}

void Applier::Answered() {
  is_asking_ = false;
  Next();
}

bool Applier::SessionIsBroken() const { return !database_.up() || session_ != database_.incarnation(); }

void Applier::Push(sp::ApplyStep step) {
  if (scenario_.mutation == Mutation::kJoinedBeforeTheLog) step.complete_t = 0;
  if (scenario_.mutation == Mutation::kSchemaChangesAreRows) {
    for (sp::ApplyTransaction& one : step.transactions) {
      if (!one.write_set) continue;
      auto rows = std::make_shared<proto::WriteSet>(*one.write_set);
      rows->set_kind(proto::ENTRY_ROWS);
      one.write_set = rows;
    }
  }
  queue_.push_back(std::move(step));
  if (is_asking_ && !is_taking_ && std::holds_alternative<sp::TakeSteps>(request_)) TakeFromQueue();
}

// What runs in the session ends with it, and an idle session is looked at.
void Applier::OnPostgresCrash() {
  if (!is_asking_ || is_taking_ || std::holds_alternative<sp::Pause>(request_)) return;
  if (std::holds_alternative<sp::ConnectSession>(request_)) return;
  work_ = std::make_shared<int>(0);
  Later(0, 0, [this] {
    if (std::holds_alternative<sp::TakeSteps>(request_)) return TakeFromQueue();
    std::visit([this](const auto& request) { Do(request); }, sp::ApplyRequest(request_));
  });
}

// The worker is there as soon as PostgreSQL is (README.md).
void Applier::OnPostgresBack() {
  if (!is_asking_) return;
  if (std::holds_alternative<sp::Pause>(request_)) {
    work_ = std::make_shared<int>(0);
    core_.OnPaused();
    Answered();
  } else if (std::holds_alternative<sp::ConnectSession>(request_)) {
    Do(sp::ConnectSession{});
  }
}

void Applier::SetStalled(bool stalled) {
  stalled_ = stalled;
  Next();
}

void Applier::Do(const sp::ConnectSession& /*request*/) {
  if (!database_.up()) return;
  session_ = database_.incarnation();
  core_.OnConnected();
  Answered();
}

// After a crash it may take long to read what there is.
void Applier::Do(const sp::ReadPosition& /*request*/) {
  Later(50, 20'000, [this] { TellPosition(); });
}

void Applier::TellPosition() {
  if (SessionIsBroken()) {
    core_.OnPosition(kLost);
    return Answered();
  }
  const SpState& state = *database_.state();
  Commits own = state.applied;
  if (scenario_.mutation == Mutation::kLostOwnAreThere) {
    own.insert(database_.applied_before_crash().begin(), database_.applied_before_crash().end());
  }
  core_.OnPosition(sp::ApplyPosition{Place::kSame, state.watermark, state.joining, std::move(own),
                                     CatalogOf(state.SchemaNow())});
  Answered();
}

// The main loop takes what the worker has told before any request that the claim has let pass.
void Applier::Do(const sp::ClaimApply& /*request*/) {
  sim_.At(std::max(report_free_us_, sim_.now_us()), work_, [this] {
    if (!SessionIsBroken()) database_.ClaimApplySession();
    core_.OnClaimed(SessionIsBroken() ? PgResult<Done>(kLost) : Done{});
    Answered();
  });
}

void Applier::Do(const sp::ReadCatalog& /*request*/) {
  core_.OnCatalog(SessionIsBroken() ? PgResult<TableCatalogPtr>(kLost)
                                    : CatalogOf(database_.state()->SchemaNow()));
  Answered();
}

void Applier::Do(const sp::TakeSteps& request) {
  if (!queue_.empty()) return TakeFromQueue();
  const std::int64_t wait_us = std::max<std::int64_t>(0, request.until_us - sim_.now_us());
  Later(wait_us, wait_us, [this] { TakeFromQueue(); });
}

void Applier::TakeFromQueue() {
  work_ = std::make_shared<int>(0);
  std::vector<sp::ApplyStep> steps;
  for (std::int64_t some = sim_.Between(1, 6); some > 0 && !queue_.empty(); --some) {
    if (queue_.front().copied_rows && !steps.empty()) break;
    steps.push_back(std::move(queue_.front()));
    queue_.pop_front();
    if (steps.back().copied_rows) break;
  }
  is_taking_ = true;
  taken_.clear();
  for (const sp::ApplyStep& step : steps) {
    taken_.insert(taken_.end(), step.transactions.begin(), step.transactions.end());
  }
  Later(50, 2'000, [this, steps = std::move(steps)] {
    is_taking_ = false;
    core_.OnSteps(steps, sim_.now_us());
    Answered();
  });
}

std::vector<GlobalT> Applier::MissingOf(const std::vector<GlobalT>& own) const {
  std::vector<GlobalT> missing;
  if (scenario_.mutation == Mutation::kOwnMarkersAreTaken) return missing;
  std::ranges::copy_if(own, std::back_inserter(missing),
                       [this](GlobalT global_t) { return !database_.state()->applied.contains(global_t); });
  return missing;
}

void Applier::Do(const sp::FindMissingProofs& request) {
  Later(50, 2'000, [this, own = request.own] {
    core_.OnMissingProofs(SessionIsBroken() ? PgResult<std::vector<GlobalT>>(kLost) : MissingOf(own));
    Answered();
  });
}

void Applier::Do(const sp::WaitForBackend& request) {
  Later(500, 2'000, [this, tx_id = request.tx_id] {
    const bool has_ended = scenario_.mutation == Mutation::kNoWaitForOwnBackend ||
                           database_.TryLock(kLockOwner, AdvisoryLock(tx_id));
    database_.Unlock(kLockOwner);
    core_.OnBackend(SessionIsBroken() ? PgResult<bool>(kLost) : has_ended);
    Answered();
  });
}

void Applier::Do(const sp::ApplyTemporaryRows& /*request*/) { sim_.Violation("views mode is not simulated"); }

void Applier::Do(const sp::RunStatements& request) {
  if (request.stays_open) sim_.Violation("schema changes with rows are not simulated");
  if (SessionIsBroken()) {
    core_.OnStatements(kLost, sim_.now_us());
    return Answered();
  }
  changes_ = {};
  for (const sp::ApplyStatement& statement : request.statements) {
    if (const auto* rows = std::get_if<sp::DeleteRows>(&statement)) {
      const auto keys = UnpackKeys(rows->table_id, rows->keys);
      changes_.deletes.insert(changes_.deletes.end(), keys.begin(), keys.end());
    } else if (const auto* written = std::get_if<sp::WriteRows>(&statement)) {
      const auto some = UnpackRows(written->table_id, written->rows);
      changes_.upserts.insert(changes_.upserts.end(), some.begin(), some.end());
    }
  }
  blocked_since_us_ = 0;
  if (request.own.empty()) return LockRows();
  Later(50, 2'000, [this] { LookForProofs(); });
}

void Applier::LookForProofs() {
  const auto missing = MissingOf(std::get<sp::RunStatements>(request_).own);
  if (missing.empty()) return LockRows();
  core_.OnStatements(missing, sim_.now_us());
  Answered();
}

// Who holds the first lock that is not free; nobody: all are taken.
std::set<SpDatabase::LockOwner> Applier::TryLocks() {
  using Lock = SpDatabase::TableLock;
  std::vector<RowKey> keys = changes_.deletes;
  for (const auto& [key, image] : changes_.upserts) {
    keys.push_back(key);
    if (key.table_id == kNames) keys.push_back(GuardKey(ValueOf(image)));
    if (key.table_id != kHistoryTable) continue;
    auto blockers = database_.TryLockTable(kLockOwner, ChangeIn(image).table_id, Lock::kChange);
    if (!blockers.empty()) return blockers;
  }
  for (const RowKey& key : changes_.deletes) {
    if (key.table_id != kParents) continue;
    auto blockers = database_.TryLockTable(kLockOwner, ParentLock(key), Lock::kChange);
    if (!blockers.empty()) return blockers;
  }
  for (const RowKey& key : keys) {
    auto blockers = database_.TryLockTable(kLockOwner, key.table_id, Lock::kWrite);
    if (!blockers.empty()) return blockers;
    if (!database_.TryLock(kLockOwner, key)) return {database_.HolderOf(key)};
  }
  return {};
}

void Applier::LockRows() {
  if (const auto blockers = TryLocks(); !blockers.empty()) {
    if (blocked_since_us_ == 0) blocked_since_us_ = sim_.now_us();
    if (sim_.now_us() - blocked_since_us_ >= kConflictGraceUs)
      std::ranges::for_each(blockers, hooks_.end_blocker);
    return Later(500, 5'000, [this] { LockRows(); });
  }
  if (scenario_.mutation == Mutation::kWatermarkBeforeRows) {
    Commit({std::get<sp::RunStatements>(request_).statements.back()});
  }
  Later(200, 5'000, [this] {
    Commit(std::get<sp::RunStatements>(request_).statements);
    database_.Unlock(kLockOwner);
    // The answer is lost if PostgreSQL crashes now.
    Later(10, 300, [this] {
      core_.OnStatements(std::vector<GlobalT>(), sim_.now_us());
      Answered();
    });
  });
}

void Applier::Commit(const sp::ApplyStatements& statements) {
  Transaction transaction(&sim_, scenario_, *database_.state());
  for (const sp::ApplyStatement& statement : statements) std::visit(transaction, statement);
  transaction.Check(taken_);
  sim_.Trace("apply: W is ", transaction.next.watermark);
  database_.Commit(std::move(transaction.next));
  if (transaction.durable && scenario_.mutation != Mutation::kAckBeforeDurable) database_.Flush();
}

void Applier::Do(const sp::LookAlive& /*request*/) {
  core_.OnLookAlive(SessionIsBroken() ? PgResult<Done>(kLost) : Done{});
  Answered();
}

void Applier::Do(const sp::Pause& request) {
  Later(request.ms * 1000, request.ms * 1000, [this] {
    core_.OnPaused();
    Answered();
  });
}

void Applier::Do(const sp::EndWorker& /*request*/) { sim_.Violation("the apply worker ends"); }

}  // namespace psp::simulation
