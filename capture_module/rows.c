#include "capture_module/rows.h"

#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_trigger.h"
#include "commands/trigger.h"
#include "executor/executor.h"
#include "executor/nodeModifyTable.h"
#include "miscadmin.h"
#include "parser/parse_relation.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

// ---- opening -------------------------------------------------------------------------------------------------------------------

// As PostgreSQL's own worker of logical replication has it.
static void AddToRangeTable(RowWriter *writer, Bitmapset *updated) {
  RangeTblEntry *entry = makeNode(RangeTblEntry);
  entry->rtekind = RTE_RELATION;
  entry->relid = RelationGetRelid(writer->table);
  entry->relkind = writer->table->rd_rel->relkind;
  entry->rellockmode = RowExclusiveLock;
#if PG_VERSION_NUM >= 160000
  List *permissions = NIL;
  addRTEPermissionInfo(&permissions, entry)->updatedCols = updated;
#if PG_VERSION_NUM >= 180000
  ExecInitRangeTable(writer->estate, list_make1(entry), permissions, bms_make_singleton(1));
#else
  ExecInitRangeTable(writer->estate, list_make1(entry), permissions);
#endif
#else
  entry->updatedCols = updated;
  ExecInitRangeTable(writer->estate, list_make1(entry));
#endif
}

static bool Fires(const Trigger *trigger) {
  if (trigger->tgenabled == TRIGGER_FIRES_ALWAYS) return true;
  const char enabled = SessionReplicationRole == SESSION_REPLICATION_ROLE_REPLICA ? TRIGGER_FIRES_ON_REPLICA
                                                                                  : TRIGGER_FIRES_ON_ORIGIN;
  return trigger->tgenabled == enabled;
}

static bool HasRowTriggers(Relation table) {
  const TriggerDesc *all = table->trigdesc;
  bool found = false;
  for (int i = 0; all != NULL && i < all->numtriggers; ++i) {
    const Trigger *trigger = &all->triggers[i];
    if (!Fires(trigger) || !TRIGGER_FOR_ROW(trigger->tgtype)) continue;
    if (!TRIGGER_FOR_AFTER(trigger->tgtype))
      ereport(ERROR, errmsg("psp: trigger \"%s\" of table \"%s\" needs a statement", trigger->tgname,
                            RelationGetRelationName(table)));
    found = true;
  }
  return found;
}

static void FindKeyIndex(RowWriter *writer) {
  const ResultRelInfo *info = writer->info;
  for (int i = 0; i < info->ri_NumIndices; ++i)
    if (info->ri_IndexRelationDescs[i]->rd_index->indisprimary)
      writer->key_index = info->ri_IndexRelationDescs[i];
  if (writer->key_index == NULL)
    ereport(ERROR, errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
            errmsg("psp: table \"%s\" has no primary key", RelationGetRelationName(writer->table)));
  writer->key_count = writer->key_index->rd_index->indnkeyatts;
  writer->key_columns = writer->key_index->rd_index->indkey.values;
}

static void MakeScanKeys(RowWriter *writer) {
  for (int i = 0; i < writer->key_count; ++i) {
    const Oid family = writer->key_index->rd_opfamily[i];
    const Oid type = writer->key_index->rd_opcintype[i];
    const Oid equality = get_opfamily_member(family, type, type, BTEqualStrategyNumber);
    if (!OidIsValid(equality))
      ereport(ERROR, errmsg("psp: index \"%s\" has no equality", RelationGetRelationName(writer->key_index)));
    ScanKeyEntryInitialize(&writer->scan_keys[i], 0, (AttrNumber)(i + 1), BTEqualStrategyNumber, InvalidOid,
                           writer->key_index->rd_indcollation[i], get_opcode(equality), (Datum)0);
  }
}

// Sees what has been committed until now.
static void BeginScan(RowWriter *writer) {
  PushActiveSnapshot(GetLatestSnapshot());
  writer->estate->es_snapshot = GetActiveSnapshot();
#if PG_VERSION_NUM >= 180000
  writer->scan = index_beginscan(writer->table, writer->key_index, writer->estate->es_snapshot, NULL,
                                 writer->key_count, 0);
#else
  writer->scan =
      index_beginscan(writer->table, writer->key_index, writer->estate->es_snapshot, writer->key_count, 0);
#endif
}

static void EndScan(RowWriter *writer) {
  ExecClearTuple(writer->found);
  index_endscan(writer->scan);
  PopActiveSnapshot();
}

RowWriter *OpenRows(Relation table, Bitmapset *updated) {
  CommandCounterIncrement();
  EState *estate = CreateExecutorState();
  const MemoryContext before = MemoryContextSwitchTo(estate->es_query_cxt);
  RowWriter *writer = palloc0(sizeof(RowWriter));
  writer->table = table;
  writer->estate = estate;
  writer->before = before;
  AddToRangeTable(writer, updated);
  writer->info = makeNode(ResultRelInfo);
  InitResultRelInfo(writer->info, table, 1, NULL, 0);
  estate->es_opened_result_relations = lappend(estate->es_opened_result_relations, writer->info);
  estate->es_output_cid = GetCurrentCommandId(true);
  writer->has_triggers = HasRowTriggers(table);
  ExecOpenIndices(writer->info, false);
  FindKeyIndex(writer);
  MakeScanKeys(writer);
  writer->unique_columns = RelationGetIndexAttrBitmap(table, INDEX_ATTR_BITMAP_KEY);
  writer->given = palloc(sizeof(Datum) * (size_t)RelationGetDescr(table)->natts);
  writer->row = ExecInitExtraTupleSlot(estate, RelationGetDescr(table), &TTSOpsVirtual);
  writer->row->tts_tableOid = RelationGetRelid(table);
  writer->found = table_slot_create(table, &estate->es_tupleTable);
  BeginScan(writer);
  AfterTriggerBeginQuery();
  return writer;
}

void CloseRows(RowWriter *writer) {
  EState *estate = writer->estate;
  AfterTriggerEndQuery(estate);
  EndScan(writer);
  ExecResetTupleTable(estate->es_tupleTable, false);
  ExecCloseIndices(writer->info);
  MemoryContextSwitchTo(writer->before);
  FreeExecutorState(estate);
  CommandCounterIncrement();
}

MemoryContext MemoryOfRow(RowWriter *writer) { return GetPerTupleMemoryContext(writer->estate); }

void NextRow(RowWriter *writer) {
  ResetPerTupleExprContext(writer->estate);
  CHECK_FOR_INTERRUPTS();
}

// ---- looking -------------------------------------------------------------------------------------------------------------------

void TakeKeyOfRow(RowWriter *writer) {
  for (int i = 0; i < writer->key_count; ++i) {
    writer->key[i] = writer->row->tts_values[writer->key_columns[i] - 1];
    writer->key_nulls[i] = writer->row->tts_isnull[writer->key_columns[i] - 1];
  }
}

bool FindRow(RowWriter *writer) {
  for (int i = 0; i < writer->key_count; ++i) {
    if (writer->key_nulls[i]) return false;
    writer->scan_keys[i].sk_argument = writer->key[i];
  }
  index_rescan(writer->scan, writer->scan_keys, writer->key_count, NULL, 0);
  return index_getnext_slot(writer->scan, ForwardScanDirection, writer->found);
}

// ---- writing -------------------------------------------------------------------------------------------------------------------

// PostgreSQL reads rows in the belief that these have values. CHECKs are not evaluated: they hold for the row at the server where it was written,
// and may depend on that session's settings.
static void CheckNotNull(Relation table, TupleTableSlot *row) {
  const TupleDesc columns = RelationGetDescr(table);
  for (int i = 0; i < columns->natts; ++i) {
    const Form_pg_attribute column = TupleDescAttr(columns, i);
    const bool is_stored = column->attgenerated == '\0' || column->attgenerated == ATTRIBUTE_GENERATED_STORED;
    if (column->attnotnull && is_stored && row->tts_isnull[i])
      ereport(ERROR, errcode(ERRCODE_NOT_NULL_VIOLATION),
              errmsg("null value in column \"%s\" of relation \"%s\" violates not-null constraint",
                     NameStr(column->attname), RelationGetRelationName(table)),
              errtablecol(table, i + 1));
  }
}

// All generated columns are computed, also for an update: all others are given.
static void CompleteRow(RowWriter *writer) {
  const TupleConstr *constraints = RelationGetDescr(writer->table)->constr;
  if (constraints == NULL) return;
  if (constraints->has_generated_stored)
    ExecComputeStoredGenerated(writer->info, writer->estate, writer->row, CMD_INSERT);
  if (constraints->has_not_null) CheckNotNull(writer->table, writer->row);
}

static void InsertCompleteRow(RowWriter *writer) {
  List *rechecked = NIL;
  table_tuple_insert(writer->table, writer->row, writer->estate->es_output_cid, 0, NULL);
#if PG_VERSION_NUM >= 160000
  rechecked =
      ExecInsertIndexTuples(writer->info, writer->row, writer->estate, false, false, NULL, NIL, false);
#else
  rechecked = ExecInsertIndexTuples(writer->info, writer->row, writer->estate, false, false, NULL, NIL);
#endif
  if (writer->has_triggers) ExecARInsertTriggers(writer->estate, writer->info, writer->row, rechecked, NULL);
  list_free(rechecked);
}

// The row was written since the scan began, by who has committed by now. False: it is to be looked for again.
static bool IsWritten(TM_Result result) {
  switch (result) {
    case TM_Ok:
      return true;
    case TM_Updated:
    case TM_Deleted:
      return false;
    default:
      ereport(ERROR, errmsg("psp: a row cannot be written, result %d", (int)result));
  }
}

// The index in a tuple descriptor.
static int PlaceOf(int member) { return member + FirstLowInvalidHeapAttributeNumber - 1; }

// PostgreSQL compares keys by the bytes that are stored. An equal one that has been compressed has others: it stays as it is.
static void KeepEqualKeys(RowWriter *writer) {
  TupleTableSlot *row = writer->row, *found = writer->found;
  int member = -1;
  while ((member = bms_next_member(writer->unique_columns, member)) >= 0) {
    const int n = PlaceOf(member);
    writer->given[n] = row->tts_values[n];
    if (TupleDescAttr(row->tts_tupleDescriptor, n)->attlen != -1 || row->tts_isnull[n]) continue;
    slot_getsomeattrs(found, n + 1);
    if (!found->tts_isnull[n] && datum_image_eq(found->tts_values[n], row->tts_values[n], false, -1))
      row->tts_values[n] = found->tts_values[n];
  }
}

// What has been found is looked for again, and what was kept points into it.
static void TakeGivenKeys(RowWriter *writer) {
  int member = -1;
  while ((member = bms_next_member(writer->unique_columns, member)) >= 0)
    writer->row->tts_values[PlaceOf(member)] = writer->given[PlaceOf(member)];
}

// PostgreSQL itself compares the keys: who refers to a row whose keys stay is not in the way.
static bool UpdateFound(RowWriter *writer) {
  TM_FailureData failure;
  LockTupleMode lock;
  List *rechecked = NIL;
#if PG_VERSION_NUM >= 160000
  TU_UpdateIndexes indexes;
#else
  bool indexes;
#endif
  ItemPointerData old = writer->found->tts_tid;
  CheckCmdReplicaIdentity(writer->table, CMD_UPDATE);
  const TM_Result result =
      table_tuple_update(writer->table, &old, writer->row, writer->estate->es_output_cid,
                         writer->estate->es_snapshot, InvalidSnapshot, true, &failure, &lock, &indexes);
  if (result == TM_SelfModified)
    ereport(ERROR, errcode(ERRCODE_CARDINALITY_VIOLATION), errmsg("psp: a row is given twice"));
  if (!IsWritten(result)) return false;
#if PG_VERSION_NUM >= 160000
  if (indexes != TU_None)
    rechecked = ExecInsertIndexTuples(writer->info, writer->row, writer->estate, true, false, NULL, NIL,
                                      indexes == TU_Summarizing);
#else
  if (indexes)
    rechecked = ExecInsertIndexTuples(writer->info, writer->row, writer->estate, true, false, NULL, NIL);
#endif
  if (writer->has_triggers)
    ExecARUpdateTriggers(writer->estate, writer->info, NULL, NULL, &old, NULL, writer->row, rechecked, NULL,
                         false);
  list_free(rechecked);
  return true;
}

static bool DeleteFound(RowWriter *writer) {
  TM_FailureData failure;
  ItemPointerData old = writer->found->tts_tid;
  CheckCmdReplicaIdentity(writer->table, CMD_DELETE);
  const TM_Result result =
      table_tuple_delete(writer->table, &old, writer->estate->es_output_cid, writer->estate->es_snapshot,
                         InvalidSnapshot, true, &failure, false);
  if (result == TM_SelfModified && failure.cmax == writer->estate->es_output_cid) return true;
  if (!IsWritten(result)) return false;
  if (writer->has_triggers) ExecARDeleteTriggers(writer->estate, writer->info, &old, NULL, NULL, false);
  return true;
}

static void LookAgain(RowWriter *writer) {
  EndScan(writer);
  BeginScan(writer);
}

void InsertRow(RowWriter *writer) {
  CompleteRow(writer);
  InsertCompleteRow(writer);
}

void UpsertRow(RowWriter *writer) {
  CompleteRow(writer);
  TakeKeyOfRow(writer);
  while (FindRow(writer)) {
    KeepEqualKeys(writer);
    if (UpdateFound(writer)) return;
    TakeGivenKeys(writer);
    LookAgain(writer);
  }
  InsertCompleteRow(writer);
}

void DeleteRow(RowWriter *writer, bool (*is_meant)(RowWriter *, const void *), const void *context) {
  while (FindRow(writer) && (is_meant == NULL || is_meant(writer, context))) {
    if (DeleteFound(writer)) return;
    LookAgain(writer);
  }
}
