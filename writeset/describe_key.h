// A key as people read it, in errors and reports. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "writeset/catalog.h"

namespace psp {

// What a table_id of a write-set stands for.
struct KeyNames {
  std::string schema_name;  // empty: the id is not known
  std::string table_name;
  std::vector<std::string> key_columns;
  std::string index_name;                  // not empty: the id is this unique index's guard
  std::vector<ForeignKeyOf> foreign_keys;  // those that refer to it
};

// Key values in readable form, such as `(id, name)=(5, ann)`: usual types as in PostgreSQL, others as hex.
std::string DescribeKey(const KeyNames& names, std::string_view key);

}  // namespace psp
