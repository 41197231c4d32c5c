// Whether a session is in the database that a semi-primary's daemon was started with: after a lost connection
// another server may answer at the same address, and another database may have the same name.
//
// `database` is what psp.this_database() (sql/semi_primary/install/semi_primary.sql) returned at the start.
#pragma once

#include <stop_token>
#include <string>

#include "common/pg_session.h"
#include "common/place.h"

namespace psp {

PgResult<Place> PlaceOf(PgSession& session, const std::string& database);

// ConnectUntilStopped, repeated until the session is in that database.
bool ConnectToDatabase(PgSession& session, const std::string& database, std::stop_token stop);

}  // namespace psp
