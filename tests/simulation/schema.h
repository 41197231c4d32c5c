// The schema of a simulation and its changes. A schema change is a row (change, what it does) of the schema's history; tables
// that it creates have rows (id, n). A database's schema follows from its history.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "common/ids.h"
#include "tests/simulation/rows.h"
#include "tests/simulation/scenario.h"
#include "writeset/table_form.h"

namespace psp::simulation {

struct SchemaChange {
  enum class Kind { kOfNoTable, kChange, kCreate, kDrop, kEmpty };
  Kind kind = Kind::kOfNoTable;
  std::uint32_t table_id = 0;
};

// Whether the rows that were in its table are gone.
inline bool TakesRowsAway(const SchemaChange& what) {
  return what.kind == SchemaChange::Kind::kDrop || what.kind == SchemaChange::Kind::kEmpty;
}

// The image of the change's row.
std::string StatementOf(std::int64_t change, const SchemaChange& what);
SchemaChange ChangeIn(const std::string& image);
TableForm FormOfTables();  // of all of them
proto::TableChange TableChangeOf(const SchemaChange& what, Mutation mutation);

struct Schema {
  std::uint32_t version = 1;
  std::uint32_t last_number = kLastNumber;  // of tables and guards
  std::set<std::uint32_t> created;          // and not dropped

  bool Has(std::uint32_t table_id) const { return table_id <= kLastNumber || created.contains(table_id); }
  void Add(const SchemaChange& what);
};

// What a database knows that has this schema.
TableCatalogPtr CatalogOf(const Schema& schema);

}  // namespace psp::simulation
