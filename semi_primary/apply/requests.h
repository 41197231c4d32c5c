// What the apply worker's core asks of its database session and its inbox. Values.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "common/ids.h"
#include "common/place.h"
#include "semi_primary/apply/statements.h"
#include "semi_primary/apply/types.h"

namespace psp::sp {

// A new session, in place of the old one if there is one.
struct ConnectSession {};
struct ReadPosition {};
// Native mode: writes down that this session applies. COMMITs are refused from a crash of PostgreSQL until then.
struct ClaimApply {};
struct ReadCatalog {
  bool in_open = false;  // in the transaction that RunStatements has left open
};
// Wait for steps until this time.
struct TakeSteps {
  std::int64_t until_us = 0;
};
// Which of these own commits have no proof of being in?
struct FindMissingProofs {
  std::vector<GlobalT> own;
};
// Is no backend committing this own transaction any more? It is waited for, but not long.
struct WaitForBackend {
  TxId tx_id;
};
// Views mode: apply this own transaction from its temporary rows, or wait for the local worker that does.
struct ApplyTemporaryRows {
  TxId tx_id;
  GlobalT global_t = 0;
};
// One transaction: all of them or none. Their rows are the core's until the answer. The answer are those of `own` that have
// no proof of being in; if there are any, nothing has run.
struct RunStatements {
  ApplyStatements statements;
  bool goes_on = false;  // in the transaction that the last ones have left open; otherwise it is rolled back
  bool stays_open = false;  // no COMMIT yet; any error rolls the transaction back
  std::vector<GlobalT> own{};
};
// An idle session notices PostgreSQL's crash only with its next statement. What the crash took must come
// again.
struct LookAlive {};
struct Pause {
  std::int64_t ms = 0;
  bool disconnect = false;
};
// For good.
struct EndWorker {};

using ApplyRequest =
    std::variant<ConnectSession, ReadPosition, ClaimApply, ReadCatalog, TakeSteps, FindMissingProofs,
                 WaitForBackend, ApplyTemporaryRows, RunStatements, LookAlive, Pause, EndWorker>;

// Where a database stands.
struct ApplyPosition {
  Place place = Place::kOther;  // where it is not the same one, nothing else is known
  GlobalT watermark = 0;
  bool joining = false;
  Commits own{};  // own commits above W that are in
  TableCatalogPtr catalog;
};

}  // namespace psp::sp
