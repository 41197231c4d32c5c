// CREATE or DROP INDEX CONCURRENTLY and DETACH PARTITION CONCURRENTLY as psp.ddl runs them, without the word: psp.concurrent_ddl = 'plain'. For migrations that
// nobody can change; event triggers cannot put another statement in the place of one (docs/schema-changes.md).
#include "access/xact.h"
#include "capture_module/module.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "tcop/cmdtag.h"
#include "tcop/tcopprot.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/guc.h"

static char *how;  // the setting
static ProcessUtility_hook_type next_hook;

static bool DetachesConcurrently(const AlterTableStmt *alter) {
  const ListCell *cell;
  foreach (cell, alter->cmds) {
    const AlterTableCmd *command = lfirst_node(AlterTableCmd, cell);
    if (command->subtype == AT_DetachPartition && castNode(PartitionCmd, command->def)->concurrent)
      return true;
  }
  return false;
}

static bool IsConcurrent(const Node *statement) {
  switch (nodeTag(statement)) {
    case T_IndexStmt:
      return ((const IndexStmt *)statement)->concurrent;
    case T_DropStmt:
      return ((const DropStmt *)statement)->concurrent;
    case T_AlterTableStmt:
      return DetachesConcurrently((const AlterTableStmt *)statement);
    default:
      return false;
  }
}

// Of an index its table's. Invalid: there is none of that name.
static Oid RelationOf(const Node *statement) {
  if (IsA(statement, IndexStmt))
    return RangeVarGetRelid(((const IndexStmt *)statement)->relation, NoLock, true);
  if (IsA(statement, AlterTableStmt))
    return RangeVarGetRelid(((const AlterTableStmt *)statement)->relation, NoLock, true);
  const List *names = ((const DropStmt *)statement)->objects;
  const Oid index = RangeVarGetRelid(makeRangeVarFromNameList(linitial(names)), NoLock, true);
  return OidIsValid(index) ? IndexGetRelation(index, true) : InvalidOid;
}

// Not of what this server has alone, and not of roles whose statements stay here.
static bool GoesWithStream(const Node *statement) {
  const Oid relation = RelationOf(statement);
  return OidIsValid(relation) && AskPsp(kAskRunsPlain, psprintf("%u", relation)) != NULL;
}

static bool RunsPlain(const Node *statement, ProcessUtilityContext context) {
  return how != NULL && strcmp(how, "plain") == 0 && context == PROCESS_UTILITY_TOPLEVEL &&
         IsConcurrent(statement) && SessionReplicationRole == SESSION_REPLICATION_ROLE_ORIGIN &&
         GoesWithStream(statement);
}

// The guard judges the client's message by its text (psp.on_ddl_start), so that is this query meanwhile.
static void RunByPspDdl(const PlannedStmt *planned, const char *message) {
  static const char query[] = "SELECT psp.ddl($1)";
  const char *begin = message + Max(planned->stmt_location, 0);
  const char *statement = planned->stmt_len > 0 ? pnstrdup(begin, (Size)planned->stmt_len) : begin;
  const char *of_client = debug_query_string;
  SPI_connect();
  debug_query_string = query;
  PG_TRY();
  {
    const int done = SPI_execute_with_args(query, 1, (Oid[]){TEXTOID},
                                           (Datum[]){CStringGetTextDatum(statement)}, NULL, false, 0);
    if (done != SPI_OK_SELECT)
      ereport(ERROR, errmsg("psp: cannot run psp.ddl: %s", SPI_result_code_string(done)));
  }
  PG_FINALLY();
  { debug_query_string = of_client; }
  PG_END_TRY();
  SPI_finish();
}

static void OnUtility(PlannedStmt *planned, const char *message, bool is_shared,
                      ProcessUtilityContext context, ParamListInfo parameters, QueryEnvironment *environment,
                      DestReceiver *receiver, QueryCompletion *completion) {
  const Node *statement = planned->utilityStmt;
  if (!RunsPlain(statement, context)) {
    (next_hook != NULL ? next_hook : standard_ProcessUtility)(planned, message, is_shared, context,
                                                              parameters, environment, receiver, completion);
    return;
  }
  PreventInTransactionBlock(true, "CONCURRENTLY");  // as without the setting
  RunByPspDdl(planned, message);
  if (completion != NULL) SetQueryCompletion(completion, CreateCommandTag(planned->utilityStmt), 0);
}

void RunConcurrentlyPlain(void) {
  DefineCustomStringVariable(
      "psp.concurrent_ddl",
      "plain: CREATE and DROP INDEX CONCURRENTLY run as without that word, as in psp.ddl.", NULL, &how, "",
      PGC_USERSET, 0, NULL, NULL, NULL);
  next_hook = ProcessUtility_hook;
  ProcessUtility_hook = OnUtility;
}
