#include "tests/simulation/client.h"

#include <algorithm>

#include "tests/simulation/bad_input.h"
#include "tests/simulation/rows.h"

namespace psp::simulation {

constexpr std::int64_t kDeadlockTimeoutUs = 300'000;
constexpr std::int64_t kNameValues = 6;
const RowKey kSchemaLock{0, "schema change"};  // one after the other at an SP
constexpr int kChangesPercent = 3;
constexpr int kReferencesPercent = 35;

Client::Client(Simulator* sim, const Scenario& scenario, SpNode* node, History* history,
               SpDatabase::LockOwner number)
    : sim_(*sim), scenario_(scenario), node_(*node), history_(*history), number_(number) {}

// The next step of the open transaction; without one, the next transaction.
void Client::Later(std::int64_t low_us, std::int64_t high_us, void (Client::*step)()) {
  const std::int64_t delay_us = sim_.Between(low_us, high_us);
  if (open_) return sim_.After(delay_us, open_, [this, step] { (this->*step)(); });
  sim_.After(delay_us, [this, step] { (this->*step)(); });
}

void Client::Begin() {
  if (stopping_) return;
  const SpDatabase& database = node_.database();
  if (!database.up() || database.state()->joining) return Later(10'000, 50'000, &Client::Begin);
  CheckOwnWrites();
  open_ = std::make_shared<Open>();
  std::string bytes;
  for (int i = 0; i < 2; ++i) {
    const std::uint64_t number = sim_.Number();
    bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
  }
  open_->tx_id = *TxId::FromBytes(bytes);
  open_->xid = ++node_.last_xid;
  open_->repeatable_read = sim_.Chance(50);
  open_->begin = node_.database().state();
  open_->own_before = node_.reported.size();
  open_->number = sim_.Number();
  open_->begun_us = sim_.now_us();
  const std::int64_t operations = sim_.Between(1, 3);
  for (std::int64_t i = 0; i < operations; ++i) open_->operations.push_back(Draw());
  if (sim_.Chance(kChangesPercent)) open_->operations = {DrawChange(database.state()->SchemaNow())};
  Later(0, 5'000, &Client::Step);
}

Client::Operation Client::Draw() {
  if (sim_.Chance(kReferencesPercent)) return DrawReference();
  const std::int64_t dice = sim_.Between(1, 10);
  const std::int64_t name = sim_.Between(0, scenario_.names - 1);
  const auto created = node_.database().state()->SchemaNow().created;
  if (dice == 1 && !created.empty()) {
    return {Kind::kWriteNote, name, 0, {SchemaChange::Kind::kOfNoTable, Any(created)}};
  }
  if (dice <= 5) return {Kind::kIncrement, sim_.Between(0, scenario_.counters - 1), 0};
  if (dice <= 8) return {Kind::kSetName, name, sim_.Between(1, kNameValues)};
  if (dice == 9) return {Kind::kDeleteName, name, 0};
  return {Kind::kSwapNames, name, sim_.Between(0, scenario_.names - 1)};
}

std::uint32_t Client::Any(const std::set<std::uint32_t>& tables) {
  return *std::next(tables.begin(), sim_.Between(0, static_cast<std::int64_t>(tables.size()) - 1));
}

// Own commits are visible at once: they are in the snapshot, and no counter is behind what it was left at.
void Client::CheckOwnWrites() {
  if (last_incarnation_ != node_.database().incarnation()) return;
  const SpState& state = *node_.database().state();
  if (!state.Snapshot().Has(last_t_)) {
    sim_.Violation("SP ", node_.sp_id(), ": own commit ", last_t_, " is not visible");
  }
  for (const auto& [key, value] : last_values_) {
    const auto row = state.rows.find(key);
    if (row == state.rows.end() || ValueOf(row->second.image) < value) {
      sim_.Violation("SP ", node_.sp_id(), ": ", Text(key), " was left at ", value, " and has gone back");
    }
  }
}

std::optional<std::string> Client::Visible(const RowKey& key) const {
  if (const auto own = open_->writes.find(key); own != open_->writes.end()) return own->second;
  const SpState& state = open_->repeatable_read ? *open_->begin : *node_.database().state();
  const auto row = state.rows.find(key);
  return row == state.rows.end() ? std::nullopt : std::optional(row->second.image);
}

std::vector<RowKey> Client::RowsOf(const Operation& operation) const {
  switch (operation.kind) {
    case Kind::kIncrement:
      return {CounterKey(operation.id)};
    case Kind::kSetName:
    case Kind::kDeleteName:
      return {NameKey(operation.id)};
    case Kind::kSwapNames:
      return {NameKey(operation.id), NameKey(operation.other)};
    case Kind::kWriteNote:
      return {NoteKey(operation.change.table_id, operation.id)};
    case Kind::kChangeSchema:
      return {NextChange()};
    case Kind::kPutParent:
      return {ParentKey(operation.id)};
    case Kind::kEndParent: {
      std::vector<RowKey> rows = ChildrenOf(operation.id, *node_.database().state());
      rows.insert(rows.begin(), ParentKey(operation.id));
      return rows;
    }
    case Kind::kPutChild:
    case Kind::kDeleteChild:
      return {ChildKey(operation.id)};
    case Kind::kChangeDuty:
      return {DoctorKey(operation.id)};
  }
  return {};
}

void Client::Step() {
  if (open_->next == open_->operations.size()) return Commit();
  const Operation& operation = open_->operations[open_->next];
  const bool may_change =
      operation.kind != Kind::kChangeSchema || node_.database().TryLock(number_, kSchemaLock);
  if (may_change && open_->hold == Open::Hold::kNotAsked && MayHold(operation)) return AskForHold(operation);
  if (!may_change || !Lock(operation)) {
    if (open_->blocked_since_us == 0) open_->blocked_since_us = sim_.now_us();
    if (sim_.now_us() - open_->blocked_since_us >= kDeadlockTimeoutUs) return End(Report::kNothing);
    return Later(500, 3'000, &Client::Step);
  }
  open_->blocked_since_us = 0;
  // The first updater wins, as PostgreSQL has it under REPEATABLE READ.
  const SpState& now = *node_.database().state();
  for (const RowKey& row : RowsOf(operation)) {
    if (open_->repeatable_read && now.VersionOf(row) != open_->begin->VersionOf(row)) {
      return End(Report::kNothing);
    }
  }
  if (!Execute(operation)) return End(Report::kNothing);
  ++open_->next;
  Later(0, sim_.Chance(scenario_.long_pauses_percent) ? 400'000 : 10'000, &Client::Step);
}

// The tables, then the rows. False: somebody else has one of them.
bool Client::Lock(const Operation& operation) {
  SpDatabase& database = node_.database();
  const bool changes = operation.kind == Kind::kChangeSchema;
  const std::uint32_t table_id = changes ? operation.change.table_id : RowsOf(operation).front().table_id;
  const auto lock = changes ? SpDatabase::TableLock::kChange : SpDatabase::TableLock::kWrite;
  if (table_id != 0 && !database.TryLockTable(number_, table_id, lock).empty()) return false;
  if (!LockParent(operation)) return false;
  return std::ranges::all_of(LocksOf(operation),
                             [&](const RowKey& row) { return database.TryLock(number_, row); });
}

// False: the statement fails, and with it the transaction.
bool Client::Execute(const Operation& operation) {
  switch (operation.kind) {
    case Kind::kIncrement: {
      const RowKey key = CounterKey(operation.id);
      const auto old = Visible(key);
      if (!old) {
        sim_.Violation("SP ", node_.sp_id(), ": ", Text(key), " is not there");
        return false;
      }
      open_->writes[key] = Image(operation.id, ValueOf(*old) + 1);
      open_->increments.push_back(key);
      return true;
    }
    case Kind::kSetName:
      return SetName(operation.id, operation.other);
    case Kind::kDeleteName:
      if (Visible(NameKey(operation.id))) open_->writes[NameKey(operation.id)] = std::nullopt;
      return true;
    case Kind::kWriteNote: {
      const RowKey key = NoteKey(operation.change.table_id, operation.id);
      if (!node_.database().state()->SchemaNow().Has(key.table_id)) return false;  // it was dropped meanwhile
      const auto old = Visible(key);
      open_->writes[key] = Image(operation.id, old ? ValueOf(*old) + 1 : 1);
      return true;
    }
    case Kind::kChangeSchema:
      return ChangeSchema(operation.change);
    case Kind::kPutParent:
      PutParent(operation.id);
      return true;
    case Kind::kEndParent:
      return EndParent(operation.id);
    case Kind::kPutChild:
      return PutChild(operation.id, operation.other);
    case Kind::kDeleteChild:
      if (Visible(ChildKey(operation.id))) open_->writes[ChildKey(operation.id)] = std::nullopt;
      return true;
    case Kind::kChangeDuty:
      ChangeDuty(operation.id);
      return true;
    case Kind::kSwapNames: {
      const auto one = Visible(NameKey(operation.id));
      const auto other = Visible(NameKey(operation.other));
      if (operation.id == operation.other || !one || !other) return true;
      open_->writes[NameKey(operation.id)] = Image(operation.id, ValueOf(*other));
      open_->writes[NameKey(operation.other)] = Image(operation.other, ValueOf(*one));
      open_->guards.insert({GuardKey(ValueOf(*one)), GuardKey(ValueOf(*other))});
      return true;
    }
  }
  return false;
}

bool Client::SetName(std::int64_t id, std::int64_t value) {
  const auto old = Visible(NameKey(id));
  if (IsTaken(value, {NameKey(id)})) return false;  // unique violation
  open_->writes[NameKey(id)] = Image(id, value);
  if (!old || ValueOf(*old) != value) open_->guards.insert(GuardKey(value));
  return true;
}

// As PostgreSQL's unique index decides: by what is committed now, and by what the transaction itself did.
bool Client::IsTaken(std::int64_t value, const std::set<RowKey>& but_by) const {
  for (const auto& [key, image] : open_->writes) {
    if (key.table_id == kNames && image && ValueOf(*image) == value && !but_by.contains(key)) return true;
  }
  for (const auto& [key, row] : node_.database().state()->rows) {
    if (key.table_id != kNames || open_->writes.contains(key) || but_by.contains(key)) continue;
    if (ValueOf(row.image) == value) return true;
  }
  return false;
}

std::shared_ptr<proto::WriteSet> Client::MakeWriteSet() const {
  auto write_set = std::make_shared<proto::WriteSet>();
  write_set->set_catalog_version(VisibleSchema().version);
  for (const auto& [key, image] : open_->writes) {
    proto::Row* row = write_set->add_rows();
    row->set_table_id(key.table_id);
    if (key.table_id == kHistoryTable) {
      write_set->set_kind(proto::ENTRY_SCHEMA_CHANGE);
      write_set->set_catalog_version(static_cast<std::uint32_t>(IdOf(key)) + 1);
      if (const SchemaChange what = ChangeIn(*image); what.table_id != 0) {
        *write_set->add_table_changes() = TableChangeOf(what, scenario_.mutation);
      }
    }
    row->set_key(key.key);
    row->set_deleted(!image.has_value());
    if (image) row->set_image(*image);
  }
  for (const RowKey& guard : open_->guards) {
    proto::Row* row = write_set->add_rows();
    row->set_table_id(guard.table_id);
    row->set_key(guard.key);
    row->set_access(proto::ACCESS_GUARD);
  }
  return write_set;
}

void Client::Commit() {
  if (open_->writes.empty()) return End(Report::kNothing);
  open_->at_commit = true;
  SpDatabase& database = node_.database();
  if (!database.has_apply_session() && scenario_.mutation != Mutation::kCommitsBeforeApplyHasBegun) {
    return End(Report::kNothing);
  }
  database.TryLock(number_, AdvisoryLock(open_->tx_id));
  sp::Submission submission;
  submission.tx_id = open_->tx_id;
  submission.snapshot = open_->repeatable_read ? open_->begin->Snapshot() : database.state()->Snapshot();
  const auto write_set = MakeWriteSet();
  submission.uses = MakeUses(*write_set);
  const bool is_bad = Spoil(open_->tx_id, scenario_.bad_input_percent, write_set.get());
  submission.write_set = write_set;
  submission.write_set_bytes = submission.write_set->ByteSizeLong();
  Lost lacks_own;
  const std::size_t own_before = open_->repeatable_read ? open_->own_before : node_.reported.size();
  for (std::size_t i = 0; i < own_before; ++i) {
    if (!submission.snapshot.Has(node_.reported[i].second)) lacks_own.insert(node_.reported[i]);
  }
  history_[open_->tx_id] = {node_.sp_id(),
                            submission.snapshot,
                            submission.write_set,
                            open_->increments,
                            Report::kNothing,
                            0,
                            std::nullopt,
                            -1,
                            std::move(lacks_own),
                            is_bad,
                            open_->xid};
  sim_.Trace("SP ", node_.sp_id(), " client ", number_, ": COMMIT ", open_->tx_id.ToText(), " W ",
             submission.snapshot.watermark);
  open_->ticket = node_.Commit(submission, [this, weak = std::weak_ptr<Open>(open_)](const Done& done) {
    if (weak.lock()) OnDecision(done);
  });
  if (open_->ticket == 0) End(Report::kAborted);
}

void Client::OnDecision(const Done& decision) {
  open_->ticket = 0;
  if (const auto* error = std::get_if<UserError>(&decision)) {
    CheckHold(*error);
    return End(error->sqlstate == "08007" ? Report::kUnknown : Report::kAborted);
  }
  if (sim_.Chance(scenario_.backend_dies_percent)) {
    sim_.Trace("SP ", node_.sp_id(), " client ", number_, ": backend dies before COMMIT");
    // Its locks go when PostgreSQL has noticed.
    return End(Report::kUnknown);
  }
  const GlobalT global_t = std::get<sp::Committed>(decision).global_t;
  const std::int64_t delay_us = sim_.Chance(5) ? sim_.Between(1'000, 100'000) : sim_.Between(20, 1'000);
  sim_.After(delay_us, open_, [this, global_t] { EndCommitted(global_t); });
}

void Client::EndCommitted(GlobalT global_t) {
  SpDatabase& database = node_.database();
  SpState next = *database.state();
  last_values_.clear();
  for (const auto& [key, image] : open_->writes) {
    if (image) {
      next.Put(key, *image);
      if (key.table_id == kCounters) last_values_[key] = ValueOf(*image);
    } else {
      next.rows.erase(key);
    }
  }
  next.applied[global_t] = open_->tx_id;
  database.Commit(std::move(next));
  last_incarnation_ = database.incarnation();
  last_t_ = global_t;
  history_[open_->tx_id].reported_t = global_t;
  node_.reported.emplace_back(open_->tx_id, global_t);
  End(Report::kCommitted);
}

// The transaction ends, one way or the other. kNothing: it never came to the hook.
void Client::End(Report report) {
  node_.database().Unlock(number_);
  node_.database().EndHolding(open_->number);
  if (report != Report::kNothing) history_[open_->tx_id].report = report;
  const TxId tx_id = open_->tx_id;
  open_.reset();
  if (report == Report::kUnknown && sim_.Chance(60)) {
    ++open_questions_;
    sim_.After(sim_.Between(0, 1'000'000), [this, tx_id] { AskOutcome(tx_id); });
  }
  Later(0, 20'000, &Client::Begin);
}

void Client::Retire() {
  stopping_ = retired_ = true;
  open_questions_ = 0;
  if (open_ && open_->at_commit) history_[open_->tx_id].report = Report::kUnknown;
  open_.reset();
}

void Client::AskOutcome(const TxId& tx_id) {
  if (retired_) return;
  const auto again = [this, tx_id] { AskOutcome(tx_id); };
  history_[tx_id].asked_at_us = sim_.now_us();
  const sp::Ticket ticket = node_.AskOutcome(tx_id, [this, tx_id, again](const Done& done) {
    if (retired_) return;
    if (const auto* outcome = std::get_if<sp::Outcome>(&done)) {
      if (outcome->is != sp::Outcome::Is::kForgotten)
        history_[tx_id].outcome = outcome->is == sp::Outcome::Is::kCommitted;
      --open_questions_;
    } else {
      sim_.After(100'000, again);
    }
  });
  if (ticket == 0) sim_.After(100'000, again);
}

void Client::OnPostgresCrash() {
  if (!open_) return;
  if (open_->ticket != 0) node_.Leave(open_->ticket);
  End(open_->at_commit ? Report::kUnknown : Report::kNothing);
}

void Client::EndIfRunning() {
  if (open_ && !open_->at_commit) End(Report::kNothing);
}

}  // namespace psp::simulation
