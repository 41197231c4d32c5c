// The rows of several transactions as one binary array of records for each table. Pure.
//
// The last writer of a key wins inside the batch. Where guards accompany a table's rows, these may swap unique values: those whose
// unique values change make way first, or the table is replaced (all its rows are deleted first and then inserted; docs/decisions/20). Guards that
// are advisory locks belong to no table: they are told apart (AdvisoryLocksOf). Tables come in the order in which the
// transactions wrote to them. An image that was written under an older catalog becomes one of today
// (Row.catalog_version, CapturedTable::older_images).
#pragma once

#include <string>
#include <vector>

#include "common/ids.h"
#include "common/result.h"
#include "proto/psp.pb.h"
#include "semi_primary/apply/segments.h"
#include "writeset/catalog.h"

namespace psp::sp {

// What one transaction wrote (or, with the copy's number, what a part of the copy holds).
struct WrittenRows {
  GlobalT global_t = 0;
  const proto::WriteSet* write_set = nullptr;
  Segment rows = {};  // of them
};

struct TableChange {
  const CapturedTable* table = nullptr;
  bool replace = false;       // delete_keys hold the keys of the new rows too
  bool make_way = false;      // before the rows are written
  std::string delete_keys;    // an array of keys; empty: nothing to delete
  std::string upsert_values;  // an array of rows; empty: nothing to write
};

struct BatchProblem {
  bool catalog_may_be_old = false;  // it lacks a table, or has an older version: read it again, try again
  std::string message;
};

// `written` is in the order of global_t. `replace_all`: no ON CONFLICT anywhere. `catalog` must outlive the
// result.
Result<std::vector<TableChange>, BatchProblem> BuildBatch(const TableCatalog& catalog,
                                                          const std::vector<WrittenRows>& written,
                                                          bool replace_all);

// The keys of the advisory locks that the transactions have held, as an int8[] in binary form, ascending; empty: none.
std::string AdvisoryLocksOf(const std::vector<WrittenRows>& written);

}  // namespace psp::sp
