#include "semi_primary/apply/batch.h"

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_map>

#include "common/ids.h"
#include "common/pg_binary.h"
#include "embedded/constants.h"
#include "writeset/check.h"

namespace psp::sp {
namespace {

struct Version {
  const proto::Row* row = nullptr;
  GlobalT global_t = 0;
};

struct TableRows {
  const CapturedTable* table = nullptr;
  bool has_guards = false;
  std::unordered_map<std::string_view, std::size_t> by_key;  // -> index in rows
  std::vector<Version> rows;                                 // the last version of each key
};

// In the order in which the transactions wrote to them, as far as they agree. A local transaction, which
// mostly runs the same code, locks rows in that order too, so there is no deadlock with the worker.
class Tables {
 public:
  TableRows& operator[](std::uint32_t table_id) { return rows_[table_id]; }

  // `order`: a transaction's tables, each once. A new table goes before the next known one.
  void AddOrder(const std::vector<std::uint32_t>& order) {
    auto next = order_.end();
    std::for_each(order.rbegin(), order.rend(), [&](std::uint32_t table_id) {
      const auto known = std::ranges::find(order_, table_id);
      next = known == order_.end() ? order_.insert(next, table_id) : known;
    });
  }

  const std::vector<std::uint32_t>& order() const { return order_; }

 private:
  std::unordered_map<std::uint32_t, TableRows> rows_;
  std::vector<std::uint32_t> order_;
};

BatchProblem Malformed(const CapturedTable& table, const std::string& what) {
  return {false, "a row of " + table.schema_name + "." + table.table_name + " " + what};
}

// What must not be applied, because this semi-primary does not understand it.
std::optional<BatchProblem> Refuse(const TableCatalog& catalog, const WrittenRows& written) {
  const std::string number = "global_t " + std::to_string(written.global_t) + ": ";
  const std::uint32_t version = written.write_set->catalog_version();
  const bool makes_it = written.write_set->kind() == proto::ENTRY_SCHEMA_CHANGE;
  if (version > catalog.version && !makes_it) {
    return BatchProblem{true, number + "written under version " + std::to_string(version) +
                                  " of the catalog, this semi-primary has version " +
                                  std::to_string(catalog.version)};
  }
  const std::string problem = ProblemOf(*written.write_set);
  if (problem.empty()) return std::nullopt;
  return BatchProblem{false, number + problem};
}

// An advisory lock, or a guard of an index that a statement of the same schema change has dropped.
bool IsGuardOfNoTable(const proto::WriteSet& write_set, const proto::Row& row) {
  const bool may_be = row.table_id() == kAdvisoryLocksId || write_set.kind() == proto::ENTRY_SCHEMA_CHANGE;
  return may_be && row.access() == proto::ACCESS_GUARD;
}

std::optional<BatchProblem> Gather(const TableCatalog& catalog, const WrittenRows& written, Tables* tables) {
  const proto::WriteSet& write_set = *written.write_set;
  const int begin = written.rows.begin;
  const int end = std::min(written.rows.end, write_set.rows_size());
  if (begin == 0) {
    if (auto problem = Refuse(catalog, written)) return problem;
  }
  std::vector<std::uint32_t> order;
  for (int i = begin; i < end; ++i) {
    const proto::Row& row = write_set.rows(i);
    const auto guard = catalog.guards.find(row.table_id());
    const std::uint32_t table_id = guard == catalog.guards.end() ? row.table_id() : guard->second.table_id;
    const auto table = catalog.tables.find(table_id);
    if (table == catalog.tables.end()) {
      if (IsGuardOfNoTable(write_set, row)) continue;
      return BatchProblem{true, "table_id " + std::to_string(row.table_id()) + " is not in psp.tables"};
    }
    if (std::ranges::find(order, table_id) == order.end()) order.push_back(table_id);
    TableRows& entry = (*tables)[table_id];
    entry.table = &table->second;
    if (guard != catalog.guards.end()) {
      entry.has_guards = true;
      continue;
    }
    if (row.gone_before()) continue;
    if (!row.deleted() && !row.has_image()) return Malformed(table->second, "has no image");
    const auto [known, is_new] = entry.by_key.try_emplace(row.key(), entry.rows.size());
    const Version version{&row, written.global_t};
    if (is_new) {
      entry.rows.push_back(version);
    } else {
      entry.rows[known->second] = version;
    }
  }
  tables->AddOrder(order);
  return std::nullopt;
}

// Nothing: the image has today's columns.
const OlderImage* OlderImageOf(const CapturedTable& table, const proto::Row& row) {
  if (row.catalog_version() == 0) return nullptr;
  const auto older = table.older_images.lower_bound(row.catalog_version());
  return older == table.older_images.end() ? nullptr : &older->second;
}

// An array of records, as types of this database; with their global_t if the table is versioned.
class Records {
 public:
  Records(const RowType& type, bool versioned)
      : type_(type), columns_(type.fields.size() - (versioned ? 1 : 0)), array_(type.oid) {}

  // False when the record is malformed or has another number of columns. `older`: it is an older image.
  bool Add(std::string_view record, GlobalT global_t, const OlderImage* older = nullptr) {
    if (!DecodeRecord(&record, &fields_).empty() || !record.empty()) return false;
    if (older != nullptr && !BringUpToDate(*older)) return false;
    if (fields_.size() != columns_) return false;
    std::string number;
    if (type_.fields.size() > columns_) {
      AppendInt64(&number, global_t);
      fields_.push_back({kOidInt8, number});
    }
    // A type that a user has made has another number at each semi-primary.
    for (std::size_t i = 0; i < fields_.size(); ++i) fields_[i].type_oid = type_.fields[i];
    record_.clear();
    AppendRecord(&record_, fields_);
    array_.Add(std::string_view(record_));
    return true;
  }

  // Empty when there is no row.
  std::string Finish() { return array_.size() == 0 ? std::string() : array_.Finish(); }

 private:
  bool BringUpToDate(const OlderImage& older) {
    std::vector<RecordField> fields;
    for (const OlderField& field : older) {
      if (field.place && *field.place >= fields_.size()) return false;
      fields.push_back(field.place ? fields_[*field.place] : RecordField{0, field.value});
    }
    fields_ = std::move(fields);
    return true;
  }

  const RowType& type_;
  const std::size_t columns_;
  ArrayWriter array_;
  std::vector<RecordField> fields_;  // of the record that is added
  std::string record_;
};

}  // namespace

Result<std::vector<TableChange>, BatchProblem> BuildBatch(const TableCatalog& catalog,
                                                          const std::vector<WrittenRows>& written,
                                                          bool replace_all) {
  Tables tables;
  for (const WrittenRows& rows : written) {
    if (auto problem = Gather(catalog, rows, &tables)) return *problem;
  }
  std::vector<TableChange> changes;
  for (const std::uint32_t table_id : tables.order()) {
    const TableRows& entry = tables[table_id];
    if (entry.rows.empty()) continue;
    TableChange& change = changes.emplace_back();
    change.table = entry.table;
    const bool makes_way = entry.table->makes_way;
    change.replace = replace_all || entry.table->always_replace || (entry.has_guards && !makes_way);
    change.make_way = entry.has_guards && !change.replace;
    Records keys(entry.table->key, entry.table->versioned);
    Records values(entry.table->columns, entry.table->versioned);
    for (const auto& [row, global_t] : entry.rows) {
      if ((row->deleted() || change.replace) && !keys.Add(row->key(), global_t))
        return Malformed(*entry.table, "has a malformed key");
      if (!row->deleted() && !values.Add(row->image(), global_t, OlderImageOf(*entry.table, *row)))
        return Malformed(*entry.table, "has a malformed image");
    }
    change.delete_keys = keys.Finish();
    change.upsert_values = values.Finish();
  }
  return changes;
}

std::string AdvisoryLocksOf(const std::vector<WrittenRows>& written) {
  std::set<std::int64_t> keys;
  std::vector<RecordField> fields;
  for (const WrittenRows& one : written) {
    const int end = std::min(one.rows.end, one.write_set->rows_size());
    for (int i = one.rows.begin; i < end; ++i) {
      const proto::Row& row = one.write_set->rows(i);
      if (row.table_id() != kAdvisoryLocksId) continue;
      std::string_view record = row.key();
      if (!DecodeRecord(&record, &fields).empty() || fields.size() != 1 || !fields[0].value) continue;
      if (const auto key = ReadInt64(*fields[0].value)) keys.insert(*key);
    }
  }
  if (keys.empty()) return {};
  ArrayWriter array(kOidInt8);
  for (const std::int64_t key : keys) array.AddInt8(key);
  return array.Finish();
}

}  // namespace psp::sp
