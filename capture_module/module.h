// What the files of psp_capture share. Everything runs in a backend of PostgreSQL, in its one thread, and reports errors with
// ereport(ERROR), which does not return: PostgreSQL frees memory, locks and snapshots when it aborts the transaction.
#pragma once

#include "executor/tuptable.h"
#include "lib/stringinfo.h"
#include "utils/relcache.h"
#include "utils/uuid.h"

// ---- values.c: values, keys and images in the bytes of writeset/FORMAT.md ---------------------------------------------------

typedef struct Value Value;  // how one column is written

// The columns of an image or a key.
typedef struct Values {
  int count;
  Value *members;
} Values;

// How the words that a trigger is given (sql/native/install/module.sql) name the columns of a relation. Allocated in the current
// memory context. `words`: count pairs of a column's name and its form.
Values PlanValues(Relation relation, char **words, int count);

// Whether equal bytes in an image may stand for the key: it is written in its own binary form.
bool IsKeyInImage(const Values *key, const Values *image);

// The place in the image of the key's n-th column.
uint16 PlaceInImage(const Values *key, int n, const Values *image);

// Whether a text of them depends on settings such as DateStyle.
bool NeedSettings(const Values *values);

bool HasNull(const Values *values, TupleTableSlot *row);

// Whether two rows have different values, compared by their bytes.
bool AreDifferent(const Values *values, TupleTableSlot *one, TupleTableSlot *other);

// Appends the bytes of record_send. The client's encoding must be UTF8.
void AppendRecord(StringInfo out, const Values *values, TupleTableSlot *row);

// ---- write_set.c: what the transaction has captured -----------------------------------------------------------------------

// Begins a chunk, before the first one that the transaction captures. Its payload is appended to what is returned.
// Errors: SERIALIZABLE, or the transaction is being committed.
StringInfo BeginChunk(uint32 number, char op);
void EndChunk(void);

// Errors: 54000 if a write-set of that many bytes is too large.
void CheckSize(Size bytes);

// All chunks, in one. Valid until the transaction ends; null: there are none.
StringInfo CapturedChunks(void);

// `TABLE_ID:QUERY_ID,…`: the statement that has captured something of each table last, as pg_stat_statements numbers statements, without a
// sign; null: PostgreSQL numbers none.
char *WritingStatements(void);

// Whether SQL has captured something, too: it stands in psp.write_set.
bool HasSqlCaptured(void);

// Whether the transaction may have been told its id, as the deferred trigger of psp.commit_intent has seen.
bool IsIdKnown(void);
void NoteIdIsKnown(void);

// From now on nothing may be written; AllowWrites: but for another attempt.
void RefuseWrites(void);
void AllowWrites(void);
void ForgetWriteSet(void);

// ---- daemon.c: the connection to the semi-primary's daemon --------------------------------------------------------------------

// Its answer to one request. The text is valid until the next request.
typedef struct Answer {
  enum { kAnswerTag, kAnswerText, kAnswerError, kAnswerLost } kind;
  const char *message;   // the command's tag, the one value, or the error's message
  const char *sqlstate;  // of kAnswerError, as are these; an empty string if there is none
  const char *detail;
  const char *hint;
} Answer;

// Whether there is a connection that is in the middle of nothing (a cancel may have left a request behind) and on which nothing has come by
// itself: neither its end (the daemon was restarted) nor a last message.
bool IsConnectedToDaemon(void);

// In place of the one that there was. Errors: 08006, and what a cancel gives.
void ConnectToDaemon(const char *conninfo);

// Sends a request and waits. An error (a cancel) may come at any moment; then CloseDaemonConnection.
Answer AskDaemon(const char *request);
void CloseDaemonConnection(void);

// ---- state.c: what COMMIT reads and writes in psp's tables ----------------------------------------------------------------------

// In the transaction's snapshot.
typedef struct CommitState {
  char *token;
  int32 sp_id;
  int32 catalog_version;
  int64 watermark;
  char *seen;  // own commits above it, or "-"
} CommitState;

// False: the transaction is older than the adoption.
bool ReadCommitState(CommitState *state);
void InsertApplied(int64 global_t, const pg_uuid_t *tx_id);

// Errors: 0A000 if this is not the session in which the daemon applies what others have written.
void CheckApplySession(void);

// Whether this database is one of psp's. The module may be loaded for a role, in others, too.
bool HasPsp(void);

// Whether there is another one than dblink's.
bool HasForeignDataWrappers(void);

// Whether psp.check_commit has something to look at.
bool NeedsChecks(void);

// ---- queries.c: sql/native/module ------------------------------------------------------------------------------------------

typedef enum PspQuery {
  kAskConninfo,
  kAskCapturedBySql,
  kAskLookUp,
  kAskCheckCommit,
  kAskRefuseOlder,
  kAskBeginIntent,
  kAskRefuseForeignTables,
  kAskApplyPlan,
  kAskWhyNoCommit,
  kAskRunsPlain,
  kAskBlocksApplying
} PspQuery;

typedef struct Setting {
  const char *name;
  const char *value;
} Setting;

// Until AtEOXact_GUC of the caller's nest level.
void SetForNow(const Setting *settings, size_t count);

// The one value that the query gives, a text or bytea; null: NULL. `argument`: null if it has none.
struct varlena *AskPsp(PspQuery query, const char *argument);

// ---- commit.c -------------------------------------------------------------------------------------------------------------

// A write that comes too late: 08007 if the transaction is decided.
_Noreturn void RaiseLateWrite(void);

// Makes this transaction's COMMIT ask the daemon.
void ExpectCommit(void);

// Asks at once what COMMIT would ask, under an id of this attempt (0 is the first). The transaction is decided then, must not write any more,
// and has to end next; or it had nothing to commit; or, if it `may_lose`, it has lost: the answer has a WinnerOf, and nothing is raised.
// Errors: those of COMMIT. The texts are valid until the next request.
Answer DecideNow(int attempt, bool may_lose);
// COMMIT asks, as always, but under an id of this attempt.
void DecideLater(int attempt);
bool IsDecided(void);

// The id of a transaction that was decided and has failed here afterwards, once: the client is to be told that it may be committed. Null: there is none.
// It outlives the transaction: a procedure's COMMIT raises its error when it has begun the next one.
const char *TakeDoubt(void);

// The number of the transaction that an answer 40001 names; 0: it names none, or is another answer.
int64 WinnerOf(const Answer *answer);

_Noreturn void RaiseAnswer(const Answer *answer);

// ---- init.c: once, when the module is loaded -------------------------------------------------------------------------------------

// late_errors.c
void TellLateErrors(void);

// run_again.c
void RunStatementsAgain(void);

// concurrently.c
void RunConcurrentlyPlain(void);

// read_only.c. Errors: none.
void BeReadOnlyWhileBroken(void);
