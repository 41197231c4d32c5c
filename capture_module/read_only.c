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
#include "utils/memutils.h"
#include "utils/portal.h"
#include "utils/timestamp.h"

enum { kAskEveryMs = 100 };  // for statements that only read

static bool is_read_only;       // by this file
static bool is_clients_choice;  // that the transaction is read-only
static bool is_asking;
static TimestampTz asked_at;
static ExecutorStart_hook_type next_start;
static ProcessUtility_hook_type next_utility;

// ---- whether it can commit ------------------------------------------------------------------------------------------------------

// Null: it can.
static char *WhyNoCommit(void) {
  is_asking = true;
  const text *why = AskPsp(kAskWhyNoCommit, NULL);
  is_asking = false;
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
    is_asking = false;
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

static void SetDefault(const char *value) {
  SetConfigOption("default_transaction_read_only", value, PGC_USERSET, PGC_S_SESSION);
}

// Before a statement.
static void LookAgain(bool writes) {
  const TimestampTz now = GetCurrentTimestamp();
  if (!is_read_only || is_asking || is_clients_choice || !XactReadOnly) return;
  if (!writes && !TimestampDifferenceExceeds(asked_at, now, kAskEveryMs)) return;
  asked_at = now;
  const char *why = WhyNoCommit();
  if (why == NULL) {
    is_read_only = XactReadOnly = false;
    SetDefault("off");
  } else if (writes) {
    ereport(ERROR, errcode(ERRCODE_CONNECTION_FAILURE),
            errmsg("psp: this semi-primary cannot commit: %s", why),
            errhint("Nothing was written. Try again, or at another semi-primary."));
  }
}

// ---- statements -------------------------------------------------------------------------------------------------------------------

static void OnStart(QueryDesc *query, int flags) {
  LookAgain(query->operation != CMD_SELECT || query->plannedstmt->hasModifyingCTE);
  (next_start != NULL ? next_start : standard_ExecutorStart)(query, flags);
}

static bool SayReadOnly(const List *options) {
  const ListCell *cell;
  foreach (cell, options) {
    if (strcmp(lfirst_node(DefElem, cell)->defname, "transaction_read_only") == 0) return true;
  }
  return false;
}

static bool SetsReadOnly(const VariableSetStmt *set) {
  if (set->name == NULL) return false;
  return strcmp(set->name, "transaction_read_only") == 0 ||
         (strcmp(set->name, "TRANSACTION") == 0 && SayReadOnly(set->args));
}

// No statement here may need a snapshot: BEGIN ISOLATION LEVEL would fail.
static void FollowTransaction(const Node *statement) {
  if (IsA(statement, TransactionStmt)) {
    is_clients_choice = SayReadOnly(((const TransactionStmt *)statement)->options);
  } else if (IsA(statement, VariableSetStmt)) {
    is_clients_choice |= SetsReadOnly((const VariableSetStmt *)statement);
  } else if (!IsA(statement, VariableShowStmt)) {
    LookAgain(false);
  }
}

static void OnUtility(PlannedStmt *planned, const char *query, bool is_shared, ProcessUtilityContext context,
                      ParamListInfo parameters, QueryEnvironment *environment, DestReceiver *receiver,
                      QueryCompletion *completion) {
  if (is_read_only && !is_asking) FollowTransaction(planned->utilityStmt);
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
  if (ActivePortal != NULL || !IsTransactionState() || RecoveryInProgress() || !IsOfClient() ||
      !CannotCommit())
    return;
  is_read_only = true;
  SetDefault("on");
  next_start = ExecutorStart_hook;
  ExecutorStart_hook = OnStart;
  next_utility = ProcessUtility_hook;
  ProcessUtility_hook = OnUtility;
}
