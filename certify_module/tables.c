// Rows of psp's tables: found by primary key, and written with their indexes, without a statement.
#include "access/skey.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "certify_module/module.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#if PG_VERSION_NUM < 160000
typedef bool TU_UpdateIndexes;
#define TU_None false
#endif

// ---- opening ---------------------------------------------------------------------------------------------------------------------

// An upgraded table may have its columns in another order than a new one.
static AttrNumber NumberOf(Relation relation, const char *column, int usual) {
  const TupleDesc row = RelationGetDescr(relation);
  if (usual < row->natts && strcmp(NameStr(TupleDescAttr(row, usual)->attname), column) == 0)
    return (AttrNumber)(usual + 1);
  const AttrNumber number = get_attnum(RelationGetRelid(relation), column);
  if (number == InvalidAttrNumber)
    ereport(ERROR, errcode(ERRCODE_UNDEFINED_COLUMN),
            errmsg("psp: psp.%s has no column \"%s\"", RelationGetRelationName(relation), column));
  return number;
}

void OpenTable(Table *table, const char *name, AclMode rights, const char *const columns[], int count) {
  const Oid oid = get_relname_relid(name, get_namespace_oid("psp", false));
  if (!OidIsValid(oid))
    ereport(ERROR, errcode(ERRCODE_UNDEFINED_TABLE), errmsg("psp: psp.%s is not there", name));
  if (pg_class_aclmask(oid, GetUserId(), rights, ACLMASK_ALL) != rights)
    aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_TABLE, name);
  memset(table, 0, sizeof(*table));
  table->relation = table_open(oid, RowExclusiveLock);
  table->column_count = count;
  for (int i = 0; i < count; ++i) table->columns[i] = NumberOf(table->relation, columns[i], i);
}

void CloseTable(Table *table) {
  if (table->scan != NULL) {
    index_endscan(table->scan);
    index_close(table->key, NoLock);
  }
  if (table->found != NULL) ExecDropSingleTupleTableSlot(table->found);
  if (table->written != NULL) ExecDropSingleTupleTableSlot(table->written);
  if (table->indexes != NULL) ExecCloseIndices(table->indexes);
  table_close(table->relation, NoLock);
}

// ---- finding ---------------------------------------------------------------------------------------------------------------------

static void BeginScan(Table *table, int key_columns) {
#if PG_VERSION_NUM >= 180000
  const Oid key = RelationGetPrimaryKeyIndex(table->relation, false);
#else
  const Oid key = RelationGetPrimaryKeyIndex(table->relation);
#endif
  if (!OidIsValid(key))
    ereport(ERROR, errcode(ERRCODE_UNDEFINED_OBJECT),
            errmsg("psp: psp.%s has no primary key", RelationGetRelationName(table->relation)));
  table->key = index_open(key, AccessShareLock);
#if PG_VERSION_NUM >= 180000
  table->scan = index_beginscan(table->relation, table->key, GetActiveSnapshot(), NULL, key_columns, 0);
#else
  table->scan = index_beginscan(table->relation, table->key, GetActiveSnapshot(), key_columns, 0);
#endif
  table->found = table_slot_create(table->relation, NULL);
}

TupleTableSlot *FindRow(Table *table, const Key keys[], int count) {
  ScanKeyData scan_keys[kKeyColumnsMax];
  if (table->scan == NULL) BeginScan(table, count);
  for (int i = 0; i < count; ++i)
    ScanKeyInit(&scan_keys[i], (AttrNumber)(i + 1), BTEqualStrategyNumber, keys[i].equals, keys[i].value);
  index_rescan(table->scan, scan_keys, count, NULL, 0);
  return index_getnext_slot(table->scan, ForwardScanDirection, table->found) ? table->found : NULL;
}

Datum ColumnOf(const Table *table, TupleTableSlot *row, int column, bool *is_null) {
  return slot_getattr(row, table->columns[column], is_null);
}

// ---- writing ---------------------------------------------------------------------------------------------------------------------

static TupleTableSlot *ToSlot(Table *table, const Row *row) {
  if (table->written == NULL)
    table->written = MakeSingleTupleTableSlot(RelationGetDescr(table->relation), &TTSOpsVirtual);
  TupleTableSlot *slot = table->written;
  ExecClearTuple(slot);
  memset(slot->tts_isnull, true, sizeof(bool) * (size_t)slot->tts_tupleDescriptor->natts);
  for (int i = 0; i < table->column_count; ++i) {
    slot->tts_values[table->columns[i] - 1] = row->values[i];
    slot->tts_isnull[table->columns[i] - 1] = row->nulls[i];
  }
  return ExecStoreVirtualTuple(slot);
}

static void InsertIndexEntries(Table *table, TupleTableSlot *slot, EState *estate, bool is_update,
                               bool only_summarizing) {
  if (table->indexes == NULL) {
    table->indexes = makeNode(ResultRelInfo);
    InitResultRelInfo(table->indexes, table->relation, 0, NULL, 0);
    ExecOpenIndices(table->indexes, false);
  }
  if (table->indexes->ri_NumIndices == 0) return;
#if PG_VERSION_NUM >= 160000
  (void)ExecInsertIndexTuples(table->indexes, slot, estate, is_update, false, NULL, NIL, only_summarizing);
#else
  (void)only_summarizing;
  (void)ExecInsertIndexTuples(table->indexes, slot, estate, is_update, false, NULL, NIL);
#endif
  ResetPerTupleExprContext(estate);
}

void InsertRow(Table *table, const Row *row, EState *estate) {
  TupleTableSlot *slot = ToSlot(table, row);
  table_tuple_insert(table->relation, slot, GetCurrentCommandId(true), 0, NULL);
  InsertIndexEntries(table, slot, estate, false, false);
}

bool UpdateRow(Table *table, ItemPointer place, const Row *row, EState *estate) {
  TM_FailureData failure;
  LockTupleMode lock;
  TU_UpdateIndexes indexes = TU_None;
  TupleTableSlot *slot = ToSlot(table, row);
  const TM_Result result =
      table_tuple_update(table->relation, place, slot, GetCurrentCommandId(true), GetActiveSnapshot(),
                         InvalidSnapshot, true, &failure, &lock, &indexes);
  if (result == TM_Updated || result == TM_Deleted) return false;
  if (result != TM_Ok)
    ereport(ERROR, errmsg("psp: a row of psp.%s cannot be written: %d",
                          RelationGetRelationName(table->relation), (int)result));
#if PG_VERSION_NUM >= 160000
  if (indexes != TU_None) InsertIndexEntries(table, slot, estate, true, indexes == TU_Summarizing);
#else
  if (indexes) InsertIndexEntries(table, slot, estate, true, false);
#endif
  return true;
}
