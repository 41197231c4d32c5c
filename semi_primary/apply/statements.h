// What the apply worker runs in one transaction, in this order: rows first, then what the database tells of
// them. Pure.
//
// All calls of a transaction are the columns of one SELECT, so that a batch costs one message and one commit.
// PostgreSQL evaluates the columns from left to right.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/ids.h"
#include "semi_primary/apply/batch.h"
#include "semi_primary/apply/types.h"

namespace psp::sp {

// From here on the transaction gives way in no deadlock.
struct InsistOnLocks {};
// Native mode: what this semi-primary has and has refused rows of these tables makes way for them.
struct SetAside {
  std::vector<std::uint32_t> table_ids;
  std::vector<std::string> refusals;  // SQLSTATE and message of each
};
// Advisory locks that reach all semi-primaries: local transactions that hold them end first.
struct TakeAdvisoryLocks {
  std::string_view keys;  // int8[]
};
struct ClearTable {
  std::uint32_t table_id = 0;
};
// A copy begins: nothing is applied yet. W may have been further, at a primary that was restored since.
struct BeginCopy {};
struct DeleteRows {
  std::uint32_t table_id = 0;
  std::string_view keys;  // an array of keys
};
// Those of these rows whose value of some unique index changes are deleted. They come back by WriteRows.
struct MakeWay {
  std::uint32_t table_id = 0;
  std::string_view rows;  // an array of rows
};
struct WriteRows {
  std::uint32_t table_id = 0;
  std::string_view rows;  // an array of rows
  bool are_new = false;   // no row with one of their keys is there
};
// Views mode: an own transaction whose rows were written here is committed.
struct ResolveOwn {
  TxId tx_id;
  GlobalT global_t = 0;
};
// After code of tables' owners: what it may have left in the session is removed.
struct ResetSession {};
// The same, and W moves to `upto`.
struct EndBatch {
  GlobalT below = 0;  // W until now
  GlobalT upto = 0;
  bool durable = false;  // the commit waits for the disk
  bool joined = false;   // the copy and what it left out are complete
};
using ApplyStatement = std::variant<InsistOnLocks, SetAside, TakeAdvisoryLocks, ClearTable, BeginCopy,
                                    DeleteRows, MakeWay, WriteRows, ResolveOwn, ResetSession, EndBatch>;
using ApplyStatements = std::vector<ApplyStatement>;

// `changes` must outlive the statements. `are_new`: no row with a key of theirs is there, but for those that are deleted first.
void AppendRows(const std::vector<TableChange>& changes, bool are_new, ApplyStatements* statements);

// One SELECT with its parameters, all of them in binary form.
struct SqlCall {
  std::string text;
  std::vector<std::string> parameters;
};
// `own`: if there are any, the first column names those that have no proof of being in, separated by commas; NULL: all are in. Only
// then the other columns are evaluated.
SqlCall SqlOf(std::span<const ApplyStatement> statements, std::span<const GlobalT> own = {});

}  // namespace psp::sp
