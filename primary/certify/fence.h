// Keeps the batches of an older daemon out of a database that a newer one has taken over.
//
// Every session that decides holds a shared advisory lock, and looks at the epoch after it has got it. A new
// daemon raises the epoch first, then ends each session that still holds the lock, and waits for it: from
// then on no session of an older daemon can decide anything.
#pragma once

#include "common/ids.h"
#include "common/pg_session.h"

namespace psp::primary {

// For a session that is about to decide: true when the database still has this epoch. Once for each
// connection.
PgResult<bool> JoinFence(PgSession& session, Epoch epoch);

// For a starting daemon whose epoch is durable: ends all sessions of older daemons and waits for their end.
PgResult<Done> RaiseFence(PgSession& session);

}  // namespace psp::primary
