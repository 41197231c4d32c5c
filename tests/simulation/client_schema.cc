// A client's schema changes: what it changes, and the hold that it asks for before.
#include <algorithm>
#include <string>

#include "tests/simulation/client.h"
#include "tests/simulation/rows.h"

namespace psp::simulation {

constexpr std::uint32_t kLongHoldMs = 60'000;

Client::Operation Client::DrawChange(const Schema& schema) {
  std::set<std::uint32_t> tables = schema.created;
  const std::int64_t dice = sim_.Between(1, 10);
  SchemaChange change;
  if (dice <= 3) {
    change.kind = SchemaChange::Kind::kCreate;  // its number comes when it runs
  } else if (dice <= 5 && !tables.empty()) {
    change = {SchemaChange::Kind::kDrop, Any(tables)};
  } else if (dice <= 7) {
    tables.insert({kCounters, kNames});
    change = {SchemaChange::Kind::kChange, Any(tables)};
  } else if (dice <= 9) {
    tables.insert(kNames);
    change = {SchemaChange::Kind::kEmpty, Any(tables)};
  }
  return {Kind::kChangeSchema, 0, 0, change};
}

Schema Client::VisibleSchema() const {
  const SpState& state = open_->repeatable_read ? *open_->begin : *node_.database().state();
  return state.SchemaNow();
}

// As psp.ddl counts: one more than the newest that the transaction sees.
RowKey Client::NextChange() const { return ChangeKey(VisibleSchema().version); }

// The rows, and the unique index's entries of old and new values.
std::vector<RowKey> Client::LocksOf(const Operation& operation) const {
  std::vector<RowKey> locks = RowsOf(operation);
  const bool writes_names = RowsOf(operation).front().table_id == kNames;
  if (!writes_names) return locks;
  for (const RowKey& row : RowsOf(operation)) {
    const auto found = node_.database().state()->rows.find(row);
    if (found != node_.database().state()->rows.end())
      locks.push_back(GuardKey(ValueOf(found->second.image)));
  }
  if (operation.kind == Kind::kSetName) locks.push_back(GuardKey(operation.other));
  return locks;
}

bool Client::MayHold(const Operation& operation) const {
  return operation.kind == Kind::kChangeSchema && operation.change.table_id != 0 && !open_->repeatable_read;
}

// The primary lets others' writers of the table wait.
void Client::AskForHold(const Operation& operation) {
  if (sim_.Chance(20)) {
    open_->hold = Open::Hold::kWithout;
    return Later(0, 1'000, &Client::Step);
  }
  open_->hold = Open::Hold::kAsked;
  node_.database().BeginHolding(open_->number);
  if (open_->hold_timeout_ms == 0) open_->hold_timeout_ms = sim_.Chance(20) ? 300 : kLongHoldMs;
  const sp::HoldRequest request{0, open_->number, {operation.change.table_id}, open_->hold_timeout_ms};
  open_->hold_connection = node_.daemon() != nullptr ? node_.daemon()->welcomes() : 0;
  open_->ticket = node_.Hold(request, [this, weak = std::weak_ptr<Open>(open_)](const Done& done) {
    if (weak.lock()) OnHold(done);
  });
  if (open_->ticket == 0) End(Report::kNothing);
}

void Client::OnHold(const Done& answer) {
  open_->ticket = 0;
  const auto* held = std::get_if<sp::Held>(&answer);
  if (held == nullptr) {
    open_->hold = Open::Hold::kWithout;  // there is no primary
  } else {
    open_->hold = held->granted ? Open::Hold::kGranted : Open::Hold::kNotAsked;
  }
  Later(0, 5'000, &Client::Step);
}

// While a table is held, no rows of other SPs are certified that the schema change lacks. But who asks for the outcome
// of one that waits lets it go on.
void Client::CheckHold(const UserError& error) const {
  const std::string text = error.message + " " + error.detail;
  const bool is_held = open_->hold == Open::Hold::kGranted && open_->hold_timeout_ms == kLongHoldMs &&
                       node_.daemon() != nullptr && node_.daemon()->welcomes() == open_->hold_connection;
  const bool lacks_rows =
      text.find("has not seen") != std::string::npos &&
      text.find("SP " + std::to_string(node_.sp_id()) + " has written") == std::string::npos;
  const bool was_asked = std::ranges::any_of(
      history_, [&](const auto& one) { return one.second.asked_at_us >= open_->begun_us; });
  if (is_held && lacks_rows && !was_asked) sim_.Violation("SP ", node_.sp_id(), " held a table, but: ", text);
}

bool Client::ChangeSchema(SchemaChange what) {
  const Schema schema = VisibleSchema();
  if (what.kind == SchemaChange::Kind::kCreate) what.table_id = schema.last_number + 1;
  if (what.kind != SchemaChange::Kind::kCreate && !schema.Has(what.table_id)) return false;
  open_->writes[NextChange()] = StatementOf(IdOf(NextChange()), what);
  return true;
}

}  // namespace psp::simulation
