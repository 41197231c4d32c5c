// What an application reads when its transaction is lost: names of keys, and errors other than conflicts
// (conflict_error.h). Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/ids.h"
#include "common/user_error.h"
#include "writeset/catalog.h"

namespace psp::sp {

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

// 08006: nothing was sent.
UserError NotConnectedError();
UserError LacksOwnError();
// 40001: `detail` is the primary's.
UserError OlderCatalogError(const std::string& detail);
UserError LostSchemaChangeError(const std::string& detail);
// 54000: `detail` is the primary's, of a limit of its PostgreSQL.
UserError TooLongKeyError(const std::string& detail);
// 08007: sent, and no answer.
UserError UnknownOutcomeError(const TxId& tx_id);

}  // namespace psp::sp
