#include "tests/simulation/checks.h"

#include "tests/simulation/rows.h"

namespace psp::simulation {
namespace {

// 1: what was reported is what the primary decided, or had decided before it lost it.
void CheckReports(Simulator* sim, const History& history, const PrimaryDatabase& primary, const Lost& lost) {
  for (const auto& [tx_id, record] : history) {
    const auto any_lost = lost.lower_bound({tx_id, 0});
    const bool was_lost = any_lost != lost.end() && any_lost->first == tx_id;
    const primary::Verdict* verdict = primary.DecisionOf(tx_id);
    const GlobalT global_t = verdict == nullptr ? 0 : verdict->global_t;
    if (record.report == Report::kCommitted && record.reported_t != global_t &&
        !lost.contains({tx_id, record.reported_t})) {
      sim->Violation(tx_id.ToText(), " was reported committed as ", record.reported_t, " and is ", global_t);
    }
    if (record.report == Report::kAborted && global_t > 0) {
      sim->Violation(tx_id.ToText(), " was reported aborted and is committed as ", global_t);
    }
    if (record.report == Report::kNothing) sim->Violation(tx_id.ToText(), " was never answered");
    if (record.outcome && *record.outcome != (global_t > 0) && !was_lost) {
      sim->Violation("psp.outcome told the wrong outcome of ", tx_id.ToText());
    }
  }
}

// 4, after a crash: no transaction commits whose snapshot lacks own commits of the SP.
void CheckOwnCommitsWereBack(Simulator* sim, const History& history, const PrimaryDatabase& primary,
                             const Lost& lost) {
  for (const auto& [global_t, tx_id] : primary.committed()) {
    for (const auto& own : history.at(tx_id).lacks_own) {
      if (lost.contains(own)) continue;
      sim->Violation(global_t, " was committed without having ", own.second, ", reported there before");
    }
  }
}

// 2: the tables are the same.
void CheckTables(Simulator* sim, const PrimaryDatabase& primary, const std::map<SpId, SpStatePtr>& sps) {
  std::map<RowKey, std::string> expected;
  for (const auto& [key, row] : primary.data()) {
    const bool is_row = key.table_id != kNamesGuard && !row.deleted;
    if (is_row && !primary.IsGone(key, row)) expected[key] = row.image;
  }
  for (const auto& [sp_id, state] : sps) {
    std::map<RowKey, std::string> rows;
    for (const auto& [key, row] : state->rows) rows[key] = row.image;
    if (rows != expected) sim->Violation("the tables of SP ", sp_id, " are not the primary's");
  }
}

// 3: each writer of a key has the key's last writer in its snapshot; no increment is lost.
void CheckWriters(Simulator* sim, const Scenario& scenario, const History& history,
                  const PrimaryDatabase& primary) {
  std::map<RowKey, GlobalT> last_writer;
  std::map<RowKey, std::int64_t> increments;
  for (const auto& [global_t, tx_id] : primary.committed()) {
    const TxRecord& record = history.at(tx_id);
    for (const proto::Row& row : record.write_set->rows()) {
      GlobalT& last_t = last_writer[{row.table_id(), row.key()}];
      if (!record.snapshot.Has(last_t)) {
        sim->Violation(global_t, " wrote ", Text({row.table_id(), row.key()}), " without having ", last_t);
      }
      last_t = global_t;
    }
    for (const RowKey& key : record.increments) ++increments[key];
  }
  for (std::int64_t id = 0; id < scenario.counters; ++id) {
    const std::int64_t value = ValueOf(primary.data().at(CounterKey(id)).image);
    if (value != increments[CounterKey(id)]) {
      sim->Violation("counter ", id, " is ", value, " after ", increments[CounterKey(id)], " increments");
    }
  }
}

// A schema change makes the next version, and has seen all rows of the tables that it changes. Afterwards nobody writes to
// them by an older definition.
void CheckSchemaChanges(Simulator* sim, const History& history, const PrimaryDatabase& primary) {
  std::uint32_t version = 1;
  std::map<std::uint32_t, std::uint32_t> changed_in;
  std::map<std::uint32_t, std::vector<GlobalT>> writers;
  for (const auto& [global_t, tx_id] : primary.committed()) {
    const TxRecord& record = history.at(tx_id);
    const proto::WriteSet& write_set = *record.write_set;
    for (const proto::Row& row : write_set.rows()) {
      if (changed_in[row.table_id()] > write_set.catalog_version()) {
        sim->Violation(global_t, " wrote ", Text({row.table_id(), row.key()}), " by an older definition");
      }
      writers[row.table_id()].push_back(global_t);
    }
    if (write_set.kind() != proto::ENTRY_SCHEMA_CHANGE) continue;
    if (write_set.catalog_version() != ++version) {
      sim->Violation(global_t, " makes catalog version ", write_set.catalog_version(), ", not ", version);
    }
    for (const proto::TableChange& change : write_set.table_changes()) {
      changed_in[change.table_id()] = version;
      for (const GlobalT writer_t : writers[change.table_id()]) {
        if (!record.snapshot.Has(writer_t)) {
          sim->Violation(global_t, " changed table ", change.table_id(), " without having ", writer_t);
        }
      }
    }
  }
}

// What only keys that are shared, ended or read can keep: each child has its parent, a parent has no more children than it may have,
// one doctor is on call. After each transaction.
void CheckReferences(Simulator* sim, const History& history, const PrimaryDatabase& primary) {
  std::set<std::int64_t> parents;
  for (std::int64_t id = 0; id < kParentRows; ++id) parents.insert(id);
  std::map<std::int64_t, std::int64_t> children;  // the parent of each
  std::set<std::int64_t> off_call;
  for (const auto& [global_t, tx_id] : primary.committed()) {
    for (const proto::Row& row : history.at(tx_id).write_set->rows()) {
      const RowKey key{row.table_id(), row.key()};
      const bool is_there = row.has_image();
      if (key.table_id == kParents && is_there) parents.insert(IdOf(key));
      if (key.table_id == kParents && !is_there) parents.erase(IdOf(key));
      if (key.table_id == kChildren && is_there) children[IdOf(key)] = ValueOf(row.image());
      if (key.table_id == kChildren && !is_there) children.erase(IdOf(key));
      if (key.table_id == kDoctors && ValueOf(row.image()) == 0) off_call.insert(IdOf(key));
      if (key.table_id == kDoctors && ValueOf(row.image()) == 1) off_call.erase(IdOf(key));
    }
    std::int64_t limited = 0;
    for (const auto& [child, parent] : children) {
      limited += parent == kLimitedParent ? 1 : 0;
      if (!parents.contains(parent))
        sim->Violation(global_t, " leaves child ", child, " without parent ", parent);
    }
    if (limited > kLimitedChildren) sim->Violation(global_t, " makes one child too many");
    if (off_call.size() == kDoctorRows) sim->Violation(global_t, " leaves no doctor on call");
  }
}

// 5: bad input changes nothing.
void CheckNothingBadIsIn(Simulator* sim, const History& history, const PrimaryDatabase& primary) {
  for (const auto& [global_t, tx_id] : primary.committed()) {
    if (history.at(tx_id).is_bad) sim->Violation(global_t, " is of an unknown kind, version or table");
  }
}

}  // namespace

void CheckEverything(Simulator* sim, const Scenario& scenario, const History& history,
                     const PrimaryDatabase& primary, const Lost& lost,
                     const std::map<SpId, SpStatePtr>& semi_primaries) {
  CheckNothingBadIsIn(sim, history, primary);
  CheckReports(sim, history, primary, lost);
  CheckOwnCommitsWereBack(sim, history, primary, lost);
  CheckTables(sim, primary, semi_primaries);
  CheckWriters(sim, scenario, history, primary);
  CheckSchemaChanges(sim, history, primary);
  CheckReferences(sim, history, primary);
}

}  // namespace psp::simulation
