// A session that begins while this semi-primary cannot commit is read-only, so that libpq, JDBC and others which look for a server that writes go to the next one
// (docs/decisions/81-read-only-while-broken.md). It is not any more as soon as commits are possible again. Only where the module is preloaded by the session.
#include "access/xact.h"
#include "access/xlog.h"
#include "capture_module/module.h"
#include "commands/defrem.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "tcop/pquery.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/guc_tables.h"
#include "utils/memutils.h"
#include "utils/portal.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

enum { kAskEveryMs = 100 };  // for statements that only read

// PostgreSQL's settings, which tell who has set them, and whether this transaction has.
static struct config_generic *default_setting;      // default_transaction_read_only
static struct config_generic *transaction_setting;  // transaction_read_only
static bool
    is_chained;  // the transaction has its predecessor's characteristics (AND CHAIN), which the client chose
static bool
    is_lifted;  // the transaction may write, though it began read-only; PostgreSQL forgets that at the end of a savepoint
static bool is_asking;
static TimestampTz asked_at;
static ExecutorStart_hook_type next_start;
static ProcessUtility_hook_type next_utility;

// ---- whose choice it is ---------------------------------------------------------------------------------------------------------

static struct config_generic *SettingNamed(const char *name) {
#if PG_VERSION_NUM >= 160000
  return find_option(name, false, false, ERROR);
#else
  struct config_generic **all = get_guc_variables();
  for (int i = 0; i < GetNumConfigOptions(); ++i)
    if (strcmp(all[i]->name, name) == 0) return all[i];
  elog(ERROR, "psp: there is no setting %s", name);
#endif
}

// Of this source no client, role or file can set anything. It is the session's default from then on, also when the transaction is rolled back.
static void SetDefault(const char *value) {
  SetConfigOption("default_transaction_read_only", value, PGC_USERSET, PGC_S_OVERRIDE);
}

static bool IsByDefault(void) {
  if (!IsTransactionBlock()) is_chained = false;  // the COMMIT that was to begin a chained one has failed
  return XactReadOnly && !is_chained && transaction_setting->stack == NULL;
}

static bool IsReadOnlyByUs(void) {
  return IsByDefault() && DefaultXactReadOnly && default_setting->source == PGC_S_OVERRIDE;
}

static void OnTransactionEvent(XactEvent event, void *argument) {
  (void)argument;
  if (event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT || event == XACT_EVENT_PREPARE)
    is_lifted = false;
}

// ---- whether it can commit ------------------------------------------------------------------------------------------------------

// Null: it can.
static char *WhyNoCommit(void) {
  const text *why = NULL;
  is_asking = true;
  PG_TRY();
  { why = AskPsp(kAskWhyNoCommit, NULL); }
  PG_FINALLY();
  { is_asking = false; }
  PG_END_TRY();
  return why == NULL ? NULL : text_to_cstring(why);
}

// The same, while PostgreSQL lets the session in: an error must not keep it out.
static bool CannotCommit(void) {
  const MemoryContext memory = CurrentMemoryContext;
  const ResourceOwner owner = CurrentResourceOwner;
  static const Setting patience = {"lock_timeout", "100ms"};
  bool cannot = false;
  BeginInternalSubTransaction(NULL);
  SetForNow(&patience, 1);  // until the subtransaction ends
  PG_TRY();
  {
    cannot = WhyNoCommit() != NULL;
    ReleaseCurrentSubTransaction();
  }
  PG_CATCH();
  {
    MemoryContextSwitchTo(memory);
    ErrorData *error = CopyErrorData();
    FlushErrorState();
    RollbackAndReleaseCurrentSubTransaction();
    ereport(LOG, errcode(error->sqlerrcode),
            errmsg("psp: whether this semi-primary can commit is not known: %s", error->message));
  }
  PG_END_TRY();
  MemoryContextSwitchTo(memory);
  CurrentResourceOwner = owner;
  return cannot;
}

// PostgreSQL has taken the snapshot as one that writes nothing, and does without what it would need for another.
static bool IsTooLate(void) { return IsolationIsSerializable() && FirstSnapshotSet; }

// Before a statement.
static void LookAgain(bool writes) {
  if (is_lifted && IsByDefault()) XactReadOnly = false;
  if (!IsReadOnlyByUs() || is_asking || IsInParallelMode()) return;
  const TimestampTz now = GetCurrentTimestamp();
  if (!writes && !TimestampDifferenceExceeds(asked_at, now, kAskEveryMs)) return;
  asked_at = now;
  const bool is_too_late = IsTooLate();
  const char *why = WhyNoCommit();
  if (why == NULL && is_too_late) why = "the transaction began when it could not";
  if (why == NULL) {
    XactReadOnly = false;
    is_lifted = true;
    SetDefault("off");
  } else if (writes) {
    ereport(ERROR, errcode(ERRCODE_CONNECTION_FAILURE),
            errmsg("psp: this semi-primary cannot commit: %s", why),
            errhint("Nothing was written. Try again, or at another semi-primary."));
  }
}

// ---- statements -------------------------------------------------------------------------------------------------------------------

static bool LocksRows(const PlannedStmt *planned) {
  const ListCell *cell;
  foreach (cell, planned->rowMarks)
    if (RowMarkRequiresRowShareLock(lfirst_node(PlanRowMark, cell)->markType)) return true;
  return false;
}

static void OnStart(QueryDesc *query, int flags) {
  if ((flags & EXEC_FLAG_EXPLAIN_ONLY) == 0)
    LookAgain(query->operation != CMD_SELECT || query->plannedstmt->hasModifyingCTE ||
              LocksRows(query->plannedstmt));
  (next_start != NULL ? next_start : standard_ExecutorStart)(query, flags);
}

static void FollowTransaction(const TransactionStmt *statement) {
  if (!IsTransactionBlock()) is_chained = false;
  if (statement->kind != TRANS_STMT_COMMIT && statement->kind != TRANS_STMT_ROLLBACK) return;
  is_chained = statement->chain && (is_chained || transaction_setting->stack != NULL);
}

// Others than those that write need no look, and must not have one: it takes a snapshot, and BEGIN ISOLATION LEVEL or LOCK TABLE would fail or see less.
static bool Writes(Node *statement) {
  return !IsA(statement, VariableSetStmt) && !IsA(statement, TransactionStmt) &&
         GetCommandLogLevel(statement) <= LOGSTMT_MOD;
}

static void OnUtility(PlannedStmt *planned, const char *query, bool is_shared, ProcessUtilityContext context,
                      ParamListInfo parameters, QueryEnvironment *environment, DestReceiver *receiver,
                      QueryCompletion *completion) {
  Node *statement = planned->utilityStmt;
  if (IsA(statement, TransactionStmt))
    FollowTransaction((const TransactionStmt *)statement);
  else if (Writes(statement))
    LookAgain(true);
  (next_utility != NULL ? next_utility : standard_ProcessUtility)(
      planned, query, is_shared, context, parameters, environment, receiver, completion);
}

// ---- the session's begin --------------------------------------------------------------------------------------------------------

// The daemon writes, and superusers mend.
static bool IsOfClient(void) {
  const Oid daemon = get_role_oid("psp_semi_primary", true);
  return MyProcPort != NULL && !superuser() && OidIsValid(daemon) &&
         !is_member_of_role_nosuper(GetUserId(), daemon);
}

void BeReadOnlyWhileBroken(void) {
  if (ActivePortal != NULL || !IsTransactionState() || RecoveryInProgress() || DefaultXactReadOnly ||
      !IsOfClient() || !HasPsp() || !CannotCommit())
    return;
  default_setting = SettingNamed("default_transaction_read_only");
  transaction_setting = SettingNamed("transaction_read_only");
  SetDefault("on");
  RegisterXactCallback(OnTransactionEvent, NULL);
  next_start = ExecutorStart_hook;
  ExecutorStart_hook = OnStart;
  next_utility = ProcessUtility_hook;
  ProcessUtility_hook = OnUtility;
}
