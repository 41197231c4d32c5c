// One batch as one prepared statement: sql/primary/daemon/certify_batch.sql.
#pragma once

#include <string>
#include <vector>

#include "common/pg_session.h"
#include "primary/certify/types.h"

namespace psp::primary {

// What every session that runs batches needs: the statement's plan must not depend on statistics.
std::vector<std::string> BatchSessionSettings();

// Declares the statement in the session.
void PrepareBatchStatement(PgSession& session);

// Runs the batch in its own transaction; durable when it returns verdicts. Safe to repeat after any error,
// also when in doubt: what was decided the first time is found in psp.tx_log.
PgResult<std::vector<Verdict>> RunBatch(PgSession& session, const Batch& batch);

}  // namespace psp::primary
