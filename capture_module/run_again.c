// A statement that is a transaction of its own and has lost at COMMIT is run again, under a new snapshot: psp.retry_autocommit
// (docs/decisions/84-statements-that-are-run-again.md). PostgreSQL lets nobody run a statement again after its transaction has failed. So it runs in a
// subtransaction here, and COMMIT's question to the daemon comes at its end. From there on only the end of the transaction is left.
#include "access/xact.h"
#include "capture_module/module.h"
#include "commands/trigger.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "libpq/libpq.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "nodes/plannodes.h"
#include "tcop/dest.h"
#include "tcop/pquery.h"
#include "tcop/tcopprot.h"
#include "tcop/utility.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/portal.h"
#include "utils/snapmgr.h"
#include "utils/timeout.h"

#if PG_VERSION_NUM >= 180000
#define EXECUTE_ONCE
#define EXECUTE_ONCE_PARAMETER
#else
#define EXECUTE_ONCE , true
#define EXECUTE_ONCE_PARAMETER , bool execute_once
#endif

enum {
  kRetriesMax = 100,
  kWaitsMax = 50
};  // a wait takes at most 0.2 s: semi_primary/core/watermark_waits.h

static int retries;  // psp.retry_autocommit
static bool is_running;
static bool has_left_work;  // the statement has left something for COMMIT, which comes before the decision
static ExecutorRun_hook_type next_hook;
static ProcessUtility_hook_type next_utility;

// ---- which statements -----------------------------------------------------------------------------------------------------------

static bool HasInput(void) {
#if PG_VERSION_NUM >= 170000
  return pq_buffer_remaining_data() > 0;
#else
  return pq_buffer_has_data();
#endif
}

// Whether the client has asked for nothing else before COMMIT. In the extended protocol its next message, Sync, is that.
static bool IsLastOfTransaction(void) {
  if (whereToSendOutput != DestRemote || MyBackendType != B_BACKEND) return false;
  if (!ActivePortal->visible)
    return true;  // the simple protocol hides it; several statements are a transaction block
  if (!HasInput()) return false;
  pq_startmsgread();
  const int next = pq_peekbyte();
  pq_endmsgread();
  return next == 'S';
}

static bool IsFirstOfTransaction(void) {
  return !IsTransactionBlock() && (MyXactFlags & XACT_FLAGS_PIPELINING) == 0 &&
         !TransactionIdIsValid(GetTopTransactionIdIfAny());
}

// The client's own statement, and not one of a function, whose text is another one. Not with RETURNING: its rows are sent only when the transaction is
// decided, while no cancel is looked for, and the client may be slow to read them.
static bool IsOfClient(const QueryDesc *query) {
  return ActivePortal != NULL && debug_query_string != NULL &&
         strcmp(ActivePortal->sourceText, debug_query_string) == 0 &&
         ActivePortal->strategy == PORTAL_MULTI_QUERY && list_length(ActivePortal->stmts) == 1 &&
         linitial(ActivePortal->stmts) == query->plannedstmt;
}

static bool MayRunAgain(const QueryDesc *query) {
  // Writing CTEs belong to the outer query, which would run them once more.
  return retries > 0 && !is_running && query->operation != CMD_SELECT &&
         !query->plannedstmt->hasModifyingCTE && IsOfClient(query) &&
         SessionReplicationRole == SESSION_REPLICATION_ROLE_ORIGIN && XactIsoLevel == XACT_READ_COMMITTED &&
         IsFirstOfTransaction() && IsLastOfTransaction() && HasPsp() && !NeedsChecks();
}

// ---- running it ------------------------------------------------------------------------------------------------------------------

// The statement from its beginning to its end, deferred triggers, too. Returns how many rows it has processed.
static uint64 RunWhole(const QueryDesc *query) {
  PushActiveSnapshot(GetTransactionSnapshot());
  QueryDesc *copy =
      CreateQueryDesc(query->plannedstmt, query->sourceText, GetActiveSnapshot(), InvalidSnapshot,
                      query->dest, query->params, query->queryEnv, query->instrument_options);
  ExecutorStart(copy, 0);
  ExecutorRun(copy, ForwardScanDirection, 0 EXECUTE_ONCE);
  ExecutorFinish(copy);
  const uint64 processed = copy->estate->es_processed;
  ExecutorEnd(copy);
  FreeQueryDesc(copy);
  PopActiveSnapshot();
  AfterTriggerSetState(
      &(ConstraintsSetStmt){.type = T_ConstraintsSetStmt, .constraints = NIL, .deferred = false});
  return processed;
}

static Answer Copied(const Answer *answer) {
  return (Answer){answer->kind, pstrdup(answer->message), pstrdup(answer->sqlstate), pstrdup(answer->detail),
                  pstrdup(answer->hint)};
}

// statement_timeout ends before PostgreSQL's own COMMIT, and begins again if the statement does. Returns DecideNow's answer.
static Answer DecideUnhurried(int attempt) {
  const TimestampTz end =
      get_timeout_active(STATEMENT_TIMEOUT) ? get_timeout_finish_time(STATEMENT_TIMEOUT) : 0;
  if (end != 0) disable_timeout(STATEMENT_TIMEOUT, false);
  const Answer answer = DecideNow(attempt, attempt < retries);
  if (end != 0 && WinnerOf(&answer) > 0) enable_timeout_at(STATEMENT_TIMEOUT, end);
  return answer;
}

// In a subtransaction, which an error ends. Returns what DecideNow does, in the current memory context.
static Answer Attempt(const QueryDesc *query, int attempt) {
  const MemoryContext memory = CurrentMemoryContext;
  const ResourceOwner owner = CurrentResourceOwner;
  Answer answer = {kAnswerTag, "", "", "", ""};
  BeginInternalSubTransaction(NULL);
  MemoryContextSwitchTo(memory);
  is_running = true;
  has_left_work = false;
  PG_TRY();
  {
    query->estate->es_processed = RunWhole(query);
    if (has_left_work) {
      DecideLater(attempt);
    } else {
      const Answer told = DecideUnhurried(attempt);
      answer = Copied(&told);
    }
  }
  PG_CATCH();
  {
    is_running = false;
    MemoryContextSwitchTo(memory);
    ErrorData *error = CopyErrorData();
    FlushErrorState();
    RollbackAndReleaseCurrentSubTransaction();
    MemoryContextSwitchTo(memory);
    CurrentResourceOwner = owner;
    ReThrowError(error);
  }
  PG_END_TRY();
  is_running = false;
  if (WinnerOf(&answer) > 0)
    RollbackAndReleaseCurrentSubTransaction();
  else
    ReleaseCurrentSubTransaction();
  MemoryContextSwitchTo(memory);
  CurrentResourceOwner = owner;
  return answer;
}

// Until the winner's rows are here: before, the statement would lose against them again. Where they do not come it stays lost.
static void WaitForWinner(const Answer *lost) {
  const char *request = psprintf("reach " INT64_FORMAT, WinnerOf(lost));
  for (int waits = 0; waits < kWaitsMax; ++waits) {
    const Answer answer = AskDaemon(request);
    if (answer.kind != kAnswerText) break;
    if (strcmp(answer.message, "reached") == 0) return;
    if (AskPsp(kAskBlocksApplying, NULL) != NULL)
      break;  // by a table's lock, which lasts until the transaction ends
  }
  RaiseAnswer(lost);
}

static void RunUntilItIsIn(QueryDesc *query) {
  Answer answer = Attempt(query, 0);
  for (int attempt = 1; WinnerOf(&answer) > 0; ++attempt) {
    WaitForWinner(&answer);
    answer = Attempt(query, attempt);
  }
  query->totaltime = NULL;  // pg_stat_statements and others count what has run, which are the copies
  // Behind Execute, and not at Sync: the transaction is decided.
  if (IsDecided()) MyXactFlags |= XACT_FLAGS_NEEDIMMEDIATECOMMIT;
}

// Triggers that are deferred once more, and cursors WITH HOLD, run at COMMIT.
static bool LeavesWork(const Node *statement) {
  if (IsA(statement, DeclareCursorStmt))
    return (((const DeclareCursorStmt *)statement)->options & CURSOR_OPT_HOLD) != 0;
  return IsA(statement, ConstraintsSetStmt) && ((const ConstraintsSetStmt *)statement)->deferred;
}

static void OnUtility(PlannedStmt *planned, const char *query, bool is_shared, ProcessUtilityContext context,
                      ParamListInfo parameters, QueryEnvironment *environment, DestReceiver *receiver,
                      QueryCompletion *completion) {
  if (is_running && LeavesWork(planned->utilityStmt)) has_left_work = true;
  (next_utility != NULL ? next_utility : standard_ProcessUtility)(
      planned, query, is_shared, context, parameters, environment, receiver, completion);
}

static void RunQuery(QueryDesc *query, ScanDirection direction, uint64 count EXECUTE_ONCE_PARAMETER) {
  if (MayRunAgain(query)) return RunUntilItIsIn(query);
#if PG_VERSION_NUM >= 180000
  (next_hook != NULL ? next_hook : standard_ExecutorRun)(query, direction, count);
#else
  (next_hook != NULL ? next_hook : standard_ExecutorRun)(query, direction, count, execute_once);
#endif
}

void RunStatementsAgain(void) {
  DefineCustomIntVariable(
      "psp.retry_autocommit",
      "How often a statement that is a transaction of its own, and has lost, is run again.", NULL, &retries,
      0, 0, kRetriesMax, PGC_USERSET, 0, NULL, NULL, NULL);
  next_hook = ExecutorRun_hook;
  ExecutorRun_hook = RunQuery;
  next_utility = ProcessUtility_hook;
  ProcessUtility_hook = OnUtility;
}
