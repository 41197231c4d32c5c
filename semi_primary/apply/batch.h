// The rows of several transactions as binary arrays, one for each column of each table. Pure.
//
// The last writer of a key wins inside the batch. A table whose rows are accompanied by guards is replaced:
// its rows are deleted first and then inserted, because rows may swap unique values (ARCHITECTURE.md). Tables
// come in the order in which the transactions wrote to them.
#pragma once

#include <string>
#include <vector>

#include "common/result.h"
#include "proto/psp.pb.h"
#include "semi_primary/apply/catalog.h"

namespace psp {

struct TableChange {
  const CapturedTable* table = nullptr;
  bool replace = false;                    // delete_keys hold the keys of the new rows too
  std::vector<std::string> delete_keys;    // arrays; empty: nothing to delete
  std::vector<std::string> upsert_values;  // arrays; empty: nothing to write
};

struct BatchProblem {
  bool unknown_table = false;  // reload the catalog and try again
  std::string message;
};

// `write_sets` in the order of global_t. `replace_all`: no ON CONFLICT anywhere. The catalog must outlive the
// result.
Result<std::vector<TableChange>, BatchProblem> BuildBatch(
    const TableCatalog& catalog, const std::vector<const proto::WriteSet*>& write_sets, bool replace_all);

}  // namespace psp
