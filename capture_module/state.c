// The few rows of psp's tables that every COMMIT reads and writes, without the executor: it would cost more than the rest of the COMMIT.
#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "capture_module/module.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_foreign_data_wrapper.h"
#include "commands/trigger.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

static Oid OidOf(const char *name) {
  const Oid oid = get_relname_relid(name, get_namespace_oid("psp", false));
  if (!OidIsValid(oid))
    ereport(ERROR, errcode(ERRCODE_UNDEFINED_TABLE), errmsg("psp: psp.%s is not there", name));
  return oid;
}

static Datum ColumnOf(Relation table, HeapTuple row, const char *name) {
  bool is_null;
  const Datum value =
      heap_getattr(row, get_attnum(RelationGetRelid(table), name), RelationGetDescr(table), &is_null);
  if (is_null) ereport(ERROR, errmsg("psp: psp.%s.%s is NULL", RelationGetRelationName(table), name));
  return value;
}

static bool ReadIdentity(Snapshot snapshot, CommitState *state) {
  const Relation table = table_open(OidOf("identity"), AccessShareLock);
  const SysScanDesc scan = systable_beginscan(table, InvalidOid, false, snapshot, 0, NULL);
  const HeapTuple row = systable_getnext(scan);
  const bool is_there = HeapTupleIsValid(row);
  if (is_there) {
    state->token = TextDatumGetCString(ColumnOf(table, row, "token"));
    state->sp_id = DatumGetInt32(ColumnOf(table, row, "sp_id"));
    state->catalog_version = DatumGetInt32(ColumnOf(table, row, "catalog_version"));
  }
  systable_endscan(scan);
  table_close(table, AccessShareLock);
  return is_there;
}

// The view psp.watermark.
static int64 ReadWatermark(Snapshot snapshot) {
  const Relation table = table_open(OidOf("watermarks"), AccessShareLock);
  const Relation index = index_open(OidOf("watermarks_newest"), AccessShareLock);
  const SysScanDesc scan = systable_beginscan_ordered(table, index, snapshot, 0, NULL);
  const HeapTuple row = systable_getnext_ordered(scan, BackwardScanDirection);
  if (!HeapTupleIsValid(row)) ereport(ERROR, errmsg("psp: psp.watermarks is empty"));
  const int64 watermark = DatumGetInt64(ColumnOf(table, row, "watermark"));
  systable_endscan_ordered(scan);
  index_close(index, AccessShareLock);
  table_close(table, AccessShareLock);
  return watermark;
}

// Own commits above the watermark, as the request has them.
static char *ReadSeen(Snapshot snapshot, int64 watermark) {
  StringInfoData seen;
  ScanKeyData above;
  HeapTuple row;
  initStringInfo(&seen);
  const Relation table = table_open(OidOf("applied"), AccessShareLock);
  const Relation index = index_open(OidOf("applied_pkey"), AccessShareLock);
  ScanKeyInit(&above, 1, BTGreaterStrategyNumber, F_INT8GT, Int64GetDatum(watermark));
  const SysScanDesc scan = systable_beginscan_ordered(table, index, snapshot, 1, &above);
  while (HeapTupleIsValid(row = systable_getnext_ordered(scan, ForwardScanDirection)))
    appendStringInfo(&seen, "%s" INT64_FORMAT, seen.len == 0 ? "" : ",",
                     DatumGetInt64(ColumnOf(table, row, "global_t")));
  systable_endscan_ordered(scan);
  index_close(index, AccessShareLock);
  table_close(table, AccessShareLock);
  return seen.len == 0 ? pstrdup("-") : seen.data;
}

bool ReadCommitState(CommitState *state) {
  CommandCounterIncrement();  // a schema change has written psp.identity
  const Snapshot snapshot = RegisterSnapshot(GetTransactionSnapshot());
  const bool is_adopted = ReadIdentity(snapshot, state);
  if (is_adopted) {
    state->watermark = ReadWatermark(snapshot);
    state->seen = ReadSeen(snapshot, state->watermark);
  }
  UnregisterSnapshot(snapshot);
  return is_adopted;
}

void InsertApplied(int64 global_t, const pg_uuid_t *tx_id) {
  const Relation table = table_open(OidOf("applied"), RowExclusiveLock);
  Datum values[] = {Int64GetDatum(global_t), UUIDPGetDatum(tx_id)};
  bool nulls[] = {false, false};
  CatalogTupleInsert(table, heap_form_tuple(RelationGetDescr(table), values, nulls));
  table_close(table, RowExclusiveLock);
}

// ---- what few COMMITs need ------------------------------------------------------------------------------------------------

static bool foreign_data_wrappers_may_have_changed = true;

static void OnForeignDataWrapper(Datum argument, int cache, uint32 hash) {
  (void)argument;
  (void)cache;
  (void)hash;
  foreign_data_wrappers_may_have_changed = true;
}

bool HasForeignDataWrappers(void) {
  static bool is_registered = false, has_others = false;
  bool found = false;
  HeapTuple row;
  if (!is_registered) CacheRegisterSyscacheCallback(FOREIGNDATAWRAPPEROID, OnForeignDataWrapper, (Datum)0);
  is_registered = true;
  if (!foreign_data_wrappers_may_have_changed) return has_others;
  foreign_data_wrappers_may_have_changed = false;  // a change that is heard of meanwhile makes it true again
  has_others = true;                               // also if reading is interrupted
  const Relation table = table_open(ForeignDataWrapperRelationId, AccessShareLock);
  const SysScanDesc scan = systable_beginscan(table, InvalidOid, false, NULL, 0, NULL);
  while (HeapTupleIsValid(row = systable_getnext(scan)))
    found |= strcmp(NameStr(((Form_pg_foreign_data_wrapper)GETSTRUCT(row))->fdwname), "dblink_fdw") != 0;
  systable_endscan(scan);
  table_close(table, AccessShareLock);
  has_others = found;
  return has_others;
}

// Whether the daemon has begun since PostgreSQL's last crash, which ends this backend, too: so it needs to be seen once.
static bool HasApplySession(void) {
  static bool was_seen = false;
  if (was_seen) return true;
  const Snapshot snapshot = RegisterSnapshot(GetTransactionSnapshot());
  const Relation table = table_open(OidOf("apply_session"), AccessShareLock);
  const SysScanDesc scan = systable_beginscan(table, InvalidOid, false, snapshot, 0, NULL);
  was_seen = HeapTupleIsValid(systable_getnext(scan));
  systable_endscan(scan);
  table_close(table, AccessShareLock);
  UnregisterSnapshot(snapshot);
  return was_seen;
}

// psp.refuse_replica does the same for statements. Another session may have taken its place.
void CheckApplySession(void) {
  bool is_here = false;
  HeapTuple row;
  const Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
  const Relation table = table_open(OidOf("apply_session"), AccessShareLock);
  const SysScanDesc scan = systable_beginscan(table, InvalidOid, false, snapshot, 0, NULL);
  while (HeapTupleIsValid(row = systable_getnext(scan)))
    is_here |= DatumGetInt32(ColumnOf(table, row, "pid")) == MyProcPid &&
               DatumGetTimestampTz(ColumnOf(table, row, "server_start")) == PgStartTime;
  systable_endscan(scan);
  table_close(table, AccessShareLock);
  UnregisterSnapshot(snapshot);
  if (!is_here || SessionReplicationRole != SESSION_REPLICATION_ROLE_REPLICA)
    ereport(ERROR, errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
            errmsg("psp: only the apply worker may write rows of other servers"));
}

bool HasPsp(void) {
  const Oid schema = get_namespace_oid("psp", true);
  return OidIsValid(schema) && OidIsValid(get_relname_relid("apply_session", schema));
}

bool NeedsChecks(void) {
  const char *show = GetConfigOption("psp.show_transaction_id", true, false);
  return HasForeignDataWrappers() || !HasApplySession() || (show != NULL && strcmp(show, "on") == 0);
}

// The deferred trigger of psp.commit_intent, whose row psp.transaction_id() inserts, and a transaction that may have foreign tables.
PG_FUNCTION_INFO_V1(psp_check_foreign_tables);
Datum psp_check_foreign_tables(PG_FUNCTION_ARGS) {
  if (!CALLED_AS_TRIGGER(fcinfo)) ereport(ERROR, errmsg("psp: psp_check_foreign_tables is a trigger"));
  NoteIdIsKnown();
  if (HasForeignDataWrappers()) (void)AskPsp(kAskRefuseForeignTables, NULL);
  return PointerGetDatum(NULL);
}
