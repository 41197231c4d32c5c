// What a newer, broken or hostile psp might send: kinds, versions and tables that nobody here knows; a guard that is deleted or has
// the number of a table, a row that others cannot apply.
#pragma once

#include "common/ids.h"
#include "proto/psp.pb.h"

namespace psp::simulation {

// Makes the write-set of so many of a hundred transactions one that must be refused, and says whether it did. The
// transaction's id alone decides, so that other draws stay as they are.
bool Spoil(const TxId& tx_id, int percent, proto::WriteSet* write_set);

// What a receiver would do that ignores what it does not know: a known kind everywhere, and today's version.
void TakeForKnown(std::uint32_t version, proto::WriteSet* write_set);

}  // namespace psp::simulation
