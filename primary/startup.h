// Takes the database over: checks that it is a primary's, locks it, and begins a new epoch.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/epochs.h"
#include "common/ids.h"
#include "common/pg_session.h"
#include "common/result.h"
#include "common/start.h"
#include "primary/certify/copies.h"
#include "primary/certify/served_server.h"
#include "primary/publish/housekeeper.h"

namespace psp::primary {

struct PrimaryState {
  std::unique_ptr<PgSession> session;  // holds the lock
  std::string cluster_id;              // 16 bytes
  Epoch epoch = 0;                     // this start's, durable
  GlobalT closed_t = 0;
  GlobalT truncated_t = 0;
  std::vector<RegistryRow> registry;
  KnownTables tables;
  EpochStarts epochs;              // this one is the last
  std::vector<GlobalT> newest_ts;  // of each: the newest number when it began
  Commits kept;                    // commits that these epochs found above their beginnings
  std::shared_ptr<ServedServer> server;
  std::shared_ptr<RequiredCopies> copies = std::make_shared<RequiredCopies>();
};

// Nothing is changed when the database is refused, but where the server hands over to its standby: that is noted there. Afterwards no session of an older daemon can decide
// anything (primary/certify/fence.h), and all that the state says is on the required copies.
// `some_standbys`: also where fewer standbys must have a decision than synchronous_standby_names lists.
Result<PrimaryState, StartProblem> TakeOver(const std::string& database, bool some_standbys = false);

// For every session that connects, also again: why this is not the server that was taken over, in a state at least as new; empty when
// it is. Such as a promoted standby, or a server whose disk was put back: they may not have all that this daemon has told.
PgResult<std::string> OtherServer(PgSession& session, ServedServer* server);

// Takes the lock again after the session was lost. kAbort: another daemon has it or had it since, or another
// server answers.
PgResult<Done> TakeLockAgain(PgSession& session, Epoch epoch, ServedServer* server);

}  // namespace psp::primary
