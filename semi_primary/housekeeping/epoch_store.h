// The primary's epochs as the semi-primary's database has them (psp.epochs).
#pragma once

#include "common/epochs.h"
#include "common/pg_session.h"
#include "semi_primary/housekeeping/identity.h"

namespace psp::sp {

SavedEpochs ReadEpochs(pqxx::work& tx);

// On the disk when it succeeds, in the place of all older ones.
PgResult<Done> SaveEpochs(PgSession& session, const EpochStarts& epochs);

}  // namespace psp::sp
