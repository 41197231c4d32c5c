// The catalog of captured tables, as each daemon knows it (writeset/FORMAT.md, "Tables"). Values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "writeset/table_form.h"

namespace psp {

// What the primary knows: it compares keys as bytes, and reads values only to judge them.
struct KnownTable {
  std::uint32_t changed_in = 1;  // the catalog version that its last change has made; 1: as adopted
  bool dropped = false;
  // The table that the number belongs to: its own, or that of a guard. Nothing: not known, an older psp has noted it.
  std::optional<std::uint32_t> of_table{};
  // Nothing: a guard's, or an older psp has noted it.
  std::optional<TableForm> form{};
};
struct KnownTables {
  std::uint32_t version = 0;                              // from 1 on
  std::unordered_map<std::uint32_t, KnownTable> numbers;  // tables and guards
};

// The type of the rows or keys of which the table's functions take an array
// (sql/semi_primary/install/apply_functions.sql).
struct RowType {
  std::uint32_t oid = 0;
  std::vector<std::uint32_t> fields;  // their types
};

// From where a column of today's image comes if the row was written under an older catalog.
struct OlderField {
  std::optional<std::size_t> place;  // in the older image; nothing: the column is newer
  std::optional<std::string> value;  // of a newer column: what older rows have there; nothing: NULL
};
using OlderImage = std::vector<OlderField>;  // for each column of today's image

struct CapturedTable {
  std::uint32_t table_id = 0;
  std::string schema_name;
  std::string table_name;
  std::vector<std::string> key_names;
  RowType columns;              // in image order
  RowType key;                  // in key order
  bool always_replace = false;  // delete and insert, never ON CONFLICT
  bool makes_way = false;       // rows whose unique values change can be told from others
  bool versioned = false;       // views mode: the last field, here too, is the row's global_t
  // By the version up to which images were written so, those of the next smaller one excepted.
  std::map<std::uint32_t, OlderImage> older_images{};
  std::vector<std::string> column_names{};  // in image order
};

struct GuardOf {
  std::uint32_t table_id = 0;
  std::string index_name;
};

// For messages.
struct ForeignKeyOf {
  std::string schema_name;
  std::string table_name;
  std::string constraint_name;

  friend bool operator==(const ForeignKeyOf&, const ForeignKeyOf&) = default;
};

// A captured table with values of a Multi-Record Value column (sql/mrv): its records table, or its base
// table.
struct MrvPart {
  std::int32_t column_id = 0;
  std::size_t key_size = 0;  // so many columns, the first ones of the table's key, name the value
  // Of rows: where their image says whether the value stands in records. Nothing: the table holds records.
  std::optional<std::size_t> split_place;
};

struct MrvColumn {
  std::vector<std::uint32_t> key_oids;  // element types of the key's arrays
  std::string report_sql;               // parameters: arrays of commits, aborts, and of each key column
};

// What a semi-primary knows: how rows are applied to its own database, whose type oids it has.
struct TableCatalog {
  std::uint32_t version = 0;                                                  // from 1 on
  std::unordered_map<std::uint32_t, CapturedTable> tables;                    // by table_id
  std::unordered_map<std::uint32_t, GuardOf> guards;                          // by the guard's own id
  std::unordered_map<std::uint32_t, std::vector<ForeignKeyOf>> foreign_keys;  // by the number they refer to
  std::unordered_map<std::uint32_t, std::vector<MrvPart>> mrv_parts;  // by table_id; empty without MRVs
  std::unordered_map<std::int32_t, MrvColumn> mrv_columns;            // by column_id
};

// Read from any thread, never changed.
using TableCatalogPtr = std::shared_ptr<const TableCatalog>;

}  // namespace psp
