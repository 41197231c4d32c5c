// What is refused in a write-set, by the primary before it certifies and by a semi-primary before it applies; and
// in what goes to the primary with it. Pure.
#pragma once

#include <string>

#include "proto/psp.pb.h"

namespace psp {

// The problem of the first row that has one, or of the whole: an unknown kind of entry or access, a row
// without a table, a key or an image, a guard that has an image or is deleted, an advisory lock that is no guard; statements of psp.schema_history, or
// changes of tables, in an entry that is no schema change. Empty: there is none.
std::string ProblemOf(const proto::WriteSet& write_set);

// The same of key uses, which the primary alone gets: an unknown kind, a use without a table, a key that is missing
// or that a whole table has, a use that occurs twice, a malformed snapshot.
std::string ProblemOf(const proto::KeyUses& uses);

// A negative watermark; `seen` does not ascend, or not above the watermark.
std::string ProblemOf(const proto::Snapshot& snapshot);

}  // namespace psp
