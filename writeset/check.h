// What is refused in a write-set, by the primary before it certifies and by a semi-primary before it applies.
// Pure.
#pragma once

#include <string>

#include "proto/psp.pb.h"

namespace psp {

// The problem of the first row that has one, or of the whole: an unknown kind of entry or access, a row
// without a table or a key, a guard that has an image or is deleted; statements of psp.schema_history, or
// changes of tables, in an entry that is no schema change. Empty: there is none.
std::string ProblemOf(const proto::WriteSet& write_set);

}  // namespace psp
