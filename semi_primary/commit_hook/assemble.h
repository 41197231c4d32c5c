// The write-set of one transaction, from what its triggers captured. Pure.
//
// Invariants of the result: each (table_id, key) occurs once; a row that is not deleted has an image; a guard
// has neither an image nor `deleted`. How nested statements are put in order: README.md.
#pragma once

#include <string>
#include <string_view>

#include "common/result.h"
#include "proto/psp.pb.h"

namespace psp {

// `chunks` is a concatenation, in any order, of record_send(ROW(cmin cid, table_id int4, op "char", depth
// int2, payload bytea)); cmin is the order of capture, payloads are as sql/native/schema.sql says. The error
// says what is malformed; nothing is kept of it.
Result<proto::WriteSet, std::string> AssembleWriteSet(std::string_view chunks);

}  // namespace psp
