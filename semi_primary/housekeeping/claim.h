// The start of the daemon in its database: claims the database, and reads which semi-primary it is.
#pragma once

#include <string>

#include "common/pg_session.h"
#include "common/result.h"
#include "common/start.h"
#include "semi_primary/housekeeping/identity.h"

namespace psp::sp {

struct ClaimOptions {
  std::string conninfo;
  std::string name;       // of the semi-primary, as it was registered
  std::string served_at;  // the hook server's conninfo, or the endpoint for clients in views mode
  bool views_mode = false;
};

// A session that claims the database whenever it connects: it takes the lock that only one daemon can have.
PgSession::Options ClaimingSession(const std::string& conninfo);

// Connects the claiming session, reads the identity, and records where the daemon can be reached. In views
// mode, transactions that were under way when the last daemon ended become pending. The error says why this
// database cannot be served.
Result<Identity, StartProblem> ClaimDatabase(PgSession* session, const ClaimOptions& options);

}  // namespace psp::sp
