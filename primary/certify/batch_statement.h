// One batch as one prepared statement: sql/primary/daemon/certify_batch.sql. After that of a schema change, in the
// same transaction, what has become of the catalog: sql/primary/daemon/change_catalog.sql.
#pragma once

#include <string>
#include <vector>

#include "common/pg_session.h"
#include "primary/certify/types.h"

namespace psp::primary {

// Settings of each session that runs batches: the statement's plan must not depend on statistics.
std::vector<std::string> BatchSessionSettings();

// Declares the statement in the session.
void PrepareBatchStatement(PgSession& session);

// Runs the batch in its own transaction. When it returns verdicts, they are durable. Safe to repeat after any
// error, also when in doubt: psp.tx_log has what was decided the first time.
PgResult<std::vector<Verdict>> RunBatch(PgSession& session, const Batch& batch);

}  // namespace psp::primary
