// The queries of few COMMITs, as psp_functions and under settings that no session changes.
#include "capture_module/module.h"
#include "catalog/pg_type.h"
#include "embedded/module_sql.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/snapmgr.h"

static const char *const texts[] = {
    [kAskConninfo] = kConninfo,
    [kAskCapturedBySql] = kCapturedBySql,
    [kAskLookUp] = kLookUp,
    [kAskCheckCommit] = kCheckCommit,
    [kAskBeginIntent] = kBeginIntent,
    [kAskRefuseForeignTables] = kRefuseForeignTables,
    [kAskRefuseOlder] = kRefuseOlder,
    [kAskApplyPlan] = kApplyPlan,
    [kAskWhyNoCommit] = kWhyNoCommit,
    [kAskRunsPlain] = kRunsPlain,
    [kAskBlocksApplying] = kBlocksApplying,
};
static SPIPlanPtr plans[lengthof(texts)];

static SPIPlanPtr PlanOf(PspQuery query, bool has_argument) {
  if (plans[query] != NULL) return plans[query];
  const SPIPlanPtr plan = SPI_prepare(texts[query], has_argument ? 1 : 0, (Oid[]){TEXTOID});
  if (plan == NULL || SPI_keepplan(plan) != 0)
    ereport(ERROR, errmsg("psp: cannot prepare a query: %s", SPI_result_code_string(SPI_result)));
  return plans[query] = plan;
}

// Under the newest snapshot, also in a REPEATABLE READ transaction. They write nothing.
static bool SeesLatest(PspQuery query) { return query == kAskWhyNoCommit || query == kAskBlocksApplying; }

// The value of the first row, copied into `memory`; null: NULL.
static struct varlena *Execute(PspQuery query, const char *argument, MemoryContext memory) {
  bool is_null;
  Datum values[] = {argument == NULL ? (Datum)0 : CStringGetTextDatum(argument)};
  const int done = SPI_execute_plan(PlanOf(query, argument != NULL), values, NULL, SeesLatest(query), 0);
  if (done != SPI_OK_SELECT || SPI_processed != 1)
    ereport(ERROR, errmsg("psp: cannot run a query: %s", SPI_result_code_string(done)));
  const Datum value = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &is_null);
  if (is_null) return NULL;
  const MemoryContext before = MemoryContextSwitchTo(memory);
  struct varlena *copy = pg_detoast_datum_copy((struct varlena *)DatumGetPointer(value));
  MemoryContextSwitchTo(before);
  return copy;
}

void SetForNow(const Setting *settings, size_t count) {
  for (size_t i = 0; i < count; ++i)
    (void)set_config_option(settings[i].name, settings[i].value, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE,
                            true, 0, false);
}

struct varlena *AskPsp(PspQuery query, const char *argument) {
  static const Setting settings[] = {{"search_path", "pg_catalog, pg_temp"},
                                     {"enable_seqscan", "off"},
                                     {"plan_cache_mode", "force_generic_plan"},
                                     {"jit", "off"}};
  const MemoryContext memory = CurrentMemoryContext;
  Oid user;
  int security;
  GetUserIdAndSecContext(&user, &security);
  // Under that restriction no trigger can be deferred, which is what kAskBeginIntent is for.
  const int restriction = query == kAskBeginIntent ? 0 : SECURITY_RESTRICTED_OPERATION;
  SetUserIdAndSecContext(get_role_oid("psp_functions", false),
                         security | SECURITY_LOCAL_USERID_CHANGE | restriction);
  const int nest_level = NewGUCNestLevel();
  SetForNow(settings, lengthof(settings));
  SPI_connect();
  PushActiveSnapshot(SeesLatest(query) ? GetLatestSnapshot() : GetTransactionSnapshot());
  struct varlena *value = Execute(query, argument, memory);
  PopActiveSnapshot();
  SPI_finish();
  AtEOXact_GUC(true, nest_level);
  SetUserIdAndSecContext(user, security);
  return value;
}
