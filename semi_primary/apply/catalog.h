// What is known of the captured tables. Values; read from any thread through a shared pointer, never changed.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace psp {

struct CapturedTable {
  std::uint32_t table_id = 0;
  std::string schema_name;
  std::string table_name;
  std::vector<std::string> key_names;
  std::vector<std::uint32_t> column_oids;  // element types of the arrays, in image order
  std::vector<std::uint32_t> key_oids;     // the same of the key's arrays, in key order
  bool always_replace = false;             // delete and insert, never ON CONFLICT
  std::string insert_sql;                  // one array parameter for each column
  std::string upsert_sql;                  // the same, ON CONFLICT DO UPDATE
  std::string delete_sql;                  // one array parameter for each key column
  std::string clear_sql{};                 // takes all rows away
  bool versioned = false;                  // views mode: one array more, of the rows' global_t, comes last
};

struct GuardOf {
  std::uint32_t table_id = 0;
  std::string index_name;
};

// A captured table that holds values of a Multi-Record Value column (sql/mrv): its records, or the rows
// themselves.
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

struct TableCatalog {
  std::unordered_map<std::uint32_t, CapturedTable> tables;            // by table_id
  std::unordered_map<std::uint32_t, GuardOf> guards;                  // by the guard's own id
  std::unordered_map<std::uint32_t, std::vector<MrvPart>> mrv_parts;  // by table_id; empty without MRVs
  std::unordered_map<std::int32_t, MrvColumn> mrv_columns;            // by column_id
};

using TableCatalogPtr = std::shared_ptr<const TableCatalog>;

}  // namespace psp
