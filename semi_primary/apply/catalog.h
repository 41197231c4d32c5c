// What is known of the captured tables. Values; read from any thread through a shared pointer, never changed.
#pragma once

#include <cstdint>
#include <memory>
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
};

struct GuardOf {
  std::uint32_t table_id = 0;
  std::string index_name;
};

struct TableCatalog {
  std::unordered_map<std::uint32_t, CapturedTable> tables;  // by table_id
  std::unordered_map<std::uint32_t, GuardOf> guards;        // by the guard's own id
};

using TableCatalogPtr = std::shared_ptr<const TableCatalog>;

}  // namespace psp
