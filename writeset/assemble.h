// The write-set of one transaction, from what its triggers captured. Pure.
//
// A key that was captured once has the captured image. For a key that was captured more often, only the table
// knows the row that the transaction leaves behind: such keys are doubts, and the hook looks them up
// (writeset/FORMAT.md).
//
// Rows and statements (rows of psp.schema_history) stay in the order of capture, as segments: rows or statements
// that follow one another. What was captured more often in an earlier segment was looked up at its end.
//
// Invariants of the result: in each segment a (table_id, key) occurs once, in the order of its first capture; the
// last one has all keys of the earlier ones, but those of dropped tables; a row that is not deleted has an image; a
// guard has neither an image nor `deleted`; a doubt has none of them yet; each table of table_changes occurs once, in
// the order of its first change. What the uses have: key_uses.h.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"
#include "proto/psp.pb.h"

namespace psp {

struct AssembledWriteSet {
  proto::WriteSet write_set;
  std::vector<int> doubts;  // indexes of rows
  int repeats_begin = 0;    // from this row on, keys of earlier segments that no later capture names
  proto::KeyUses uses;      // of all segments; while there are doubts, some of them may be needless
};

// `chunks` is a concatenation of chunks (writeset/FORMAT.md), in any order. The error says what is malformed;
// nothing is kept of it.
Result<AssembledWriteSet, std::string> AssembleWriteSet(std::string_view chunks);

// What the hook has to look up, one line for each doubt: table_id, the key in hexadecimal digits, and for
// each key column `t` with its text in hexadecimal digits, or `-` (key_text.h).
std::string DescribeDoubts(const AssembledWriteSet& assembled);

// Settles the doubts: rows that were found get their image, the others are deleted. `found` is what the
// request `rows` carries (writeset/FORMAT.md). The error says what is malformed or is no doubt; the write-set
// is then unusable.
Result<Done, std::string> SettleDoubts(std::string_view found, AssembledWriteSet* assembled);

}  // namespace psp
