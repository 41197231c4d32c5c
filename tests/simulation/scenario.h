// One run as data: how large, how fast, and what breaks when.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/ids.h"

namespace psp::simulation {

struct Fault {
  enum class Kind {
    kCrashPrimary,    // the daemon; its batches in PostgreSQL commit or not
    kCrashDaemon,     // an SP's daemon
    kCrashPostgres,   // an SP's PostgreSQL: what was not on disk is gone
    kCutConnection,   // with everything that is under way
    kSlowLink,        // twenty times slower
    kStallApply,      // the apply worker does nothing
    kRestorePrimary,  // its database becomes one of the backups, if there is one by then; all daemons stay
    kCutStandby,      // nothing gets to it; COMMITs at the primary's PostgreSQL wait for it
    kPromoteStandby,  // it takes the place of the primary's PostgreSQL
    kPromoteBesideTheOld,  // the same at another address; the old one goes on for so long, with its daemon
  };
  Kind kind = Kind::kCutConnection;
  SpId sp_id = 0;  // 0: the primary
  std::int64_t at_us = 0;
  std::int64_t duration_us = 0;
};

// A mistake built into a fake, to prove that the checks find it.
enum class Mutation {
  kNone,
  kNoConflictCheck,         // the primary's PostgreSQL lets everybody win
  kDecisionBeforeDurable,   // an executor tells the decision before its batch is committed
  kAckBeforeDurable,        // an SP acknowledges what is not on its disk
  kOwnMarkersAreTaken,      // the apply worker takes every own transaction for applied
  kNoWaitForOwnBackend,     // … looks for the proof once, without waiting for the backend's end
  kWatermarkBeforeRows,     // … lets W be seen before the rows that belong to it
  kCopyIsNotCleared,        // a copy that begins again leaves the rows of the one before
  kJoinedBeforeTheLog,      // an SP opens with the copy, before the log has brought what the copy left out
  kHistoryIsNotDrawn,       // each start of the primary's daemon goes on with the history of the last one
  kGapsAreNotSeen,          // an epoch begins after the newest number, also if a number below it is missing
  kEpochsAreNotSaved,       // an SP tells that it has saved the primary's epochs, and has not
  kLostOwnAreThere,         // an SP says that own commits which a crash took are there
  kLogIsNotKeptForJoiners,  // the log is truncated to what those that have joined acknowledge
  kCollectedKeysAreNew,     // a key that was collected passes for one that was never written
  kForgottenAreAborted,     // a question about a commit that the primary has forgotten makes it aborted
  kSchemaChangesAreRows,    // the apply worker takes schema changes for ordinary transactions
  kCommitsBeforeApplyHasBegun,  // after a crash the hook does not wait until the daemon has heard of it
  kJoinerAcknowledges,          // an SP that joins acknowledges 0 before it has its copy
  kUnknownIsTakenForKnown,      // the primary ignores kinds, versions and tables that it does not know
  kCatalogIsNotAsked,  // … lets a write-set write what its tables do not have: the numbers of guards, other columns
  kFormsAreNotTold,           // an SP does not tell which columns a table has after a schema change
  kKeysOfImagesAreNotTold,    // … where in its images the key stands
  kOlderDefinitionsAreTaken,  // … takes every transaction for one that found the newest catalog
  kWaitingAreNotCheckedAgain,  // … takes those that come while a schema change is decided for ones that found it
  kMissingRowsAreOverlooked,  // … takes every schema change for one that has seen everything
  kNobodyIsHeld,              // … grants every hold, and lets nobody wait
  kReservationsNeverEnd,      // … reserves keys for as long as the loser is there
  kEmptiedRowsAreCopied,      // an SP that joins gets rows from before their table was emptied
  kSharedIsNotTold,           // an SP does not tell that a child refers to its parent
  kEndedIsNotTold,            // … that a parent is deleted
  kEndedIsToldLate,  // … of a deleted parent tells what it has seen at COMMIT, and not when it deleted it
  kReferrersReadIsNotTold,  // … that a transaction has read all children of a parent
  kTableReadIsNotTold,      // … that it has read a whole table
  kReadsAreNotLookedUp,  // the primary's PostgreSQL takes every row that was read for one that nobody has written
  kCancelledWaitIsProof,   // the primary takes a COMMIT whose wait for the standby was cancelled for durable
  kRepeatedBatchIsProven,  // … what a batch says that was repeated and waits for nothing
  kEmptyEpochsAreForgotten,  // epochs that decided nothing, which somebody may have followed
  kOlderPrimaryIsFollowed,   // an SP forgets which primary it has followed when its daemon ends
  kStandbyIsNotWatched,      // the primary's watch takes every standby for one that has everything
  kStandstillNeverEnds,      // … goes on to say what it has seen once
  kAwayIsNotAwaited,   // a primary that ends for planned work does not wait until everybody has heard it
  kLeaderHearsNobody,  // the primary decides before it has heard what the SPs have
  kAwayRunsTimers,  // while the primary is away for planned work, COMMITs wait no longer than for a lost one
};

struct Scenario {
  std::uint64_t seed = 0;
  Mutation mutation = Mutation::kNone;
  SpId sps = 3;
  int clients_per_sp = 3;
  std::vector<std::int64_t> joins_us;  // when further SPs come and join
  std::int64_t still_rows = 0;         // names that nobody touches: they make the copy longer
  std::int64_t counters = 3;
  std::int64_t names = 4;
  std::size_t executors = 2;
  std::size_t batch_transactions_max = 4;
  std::size_t message_bytes_max = 400;
  std::size_t recent_bytes_max = 2000;
  std::size_t outstanding_bytes_max = 2000;
  std::int64_t latency_us = 20'000;  // one way, to the farthest SP
  std::int64_t run_us = 4'000'000;
  std::vector<std::int64_t> backups_us;  // when the primary's database is copied
  // From when on it is copied as soon as a number is decided and a smaller one is not.
  std::vector<std::int64_t> gap_backups_us;
  int backend_dies_percent = 2;  // between the decision and its COMMIT
  int long_pauses_percent = 5;   // of a transaction between two statements
  int bad_input_percent = 0;     // of the write-sets (bad_input.h)
  std::int64_t housekeeping_interval_us = 100'000;
  bool has_standby = false;
  std::vector<Fault> faults;
};

// Everything drawn from the seed.
Scenario MakeScenario(std::uint64_t seed);

std::string Describe(const Scenario& scenario);

}  // namespace psp::simulation
