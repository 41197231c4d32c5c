// psp.apply_…_N: what the apply worker calls to write the rows of table N (sql/semi_primary/install/apply_functions.sql).
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tupdesc.h"
#include "capture_module/module.h"
#include "capture_module/rows.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/bitmapset.h"
#include "parser/parse_coerce.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/typcache.h"

// How a value that came becomes one of its column. Under a domain type and modifier are those of the type under it: a domain's CHECKs hold for
// the value at the server where it was written.
typedef struct Column {
  AttrNumber number;
  bool is_text;     // it came as text, for the type's input function
  bool is_guarded;  // a guard depends on it
  bool is_by_value;
  int16 length;
  int32 modifier;
  Oid comes_as;  // the type under all domains, or text
  Oid input_type;
  FmgrInfo
      function;  // the input function, or the one that applies the modifier; fn_oid InvalidOid: nothing is to be done
} Column;

// What a function writes. Valid until the relation's definition changes. Code of the table's owner can call the function inside a call of it: so
// each call has a copy of this and of the columns, and what it points to lives until the transaction ends.
typedef struct Applying {
  Oid function;  // the key
  Oid relation;
  bool is_valid;
  MemoryContext memory;  // of all that it points to
  Bitmapset *updated;
  int count;
  Column *columns;
} Applying;

static HTAB *plans;
static uint64 changes;  // of relations, that this session has heard of

// ---- plans ---------------------------------------------------------------------------------------------------------------------

static void OnRelationChanged(Datum argument, Oid relation) {
  (void)argument;
  HASH_SEQ_STATUS all;
  Applying *plan;
  ++changes;
  hash_seq_init(&all, plans);
  while ((plan = hash_seq_search(&all)) != NULL)
    if (relation == InvalidOid || plan->relation == relation) plan->is_valid = false;
}

static void MakePlans(void) {
  HASHCTL control = {.keysize = sizeof(Oid), .entrysize = sizeof(Applying), .hcxt = TopMemoryContext};
  plans = hash_create("psp_capture applying", 64, &control, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
  CacheRegisterRelcacheCallback(OnRelationChanged, (Datum)0);
}

// A function's owner cannot rename it: that needs a right on the schema psp. Nor can he move it to another schema: the guard refuses.
static const char *TableIdOf(Oid function) {
  const char *name = get_func_name(function);
  const char *number = name == NULL ? NULL : strrchr(name, '_');
  if (number == NULL) ereport(ERROR, errmsg("psp: function %u writes no table", function));
  return number + 1;
}

static void PlanText(Column *column, Oid base) {
  Oid function;
  column->comes_as = TEXTOID;
  getTypeInputInfo(base, &function, &column->input_type);
  fmgr_info(function, &column->function);
}

static void PlanBinary(Column *column, Oid base) {
  Oid function = InvalidOid;
  column->comes_as = base;
  if (column->modifier >= 0 && find_typmod_coercion_function(base, &function) == COERCION_PATH_FUNC)
    fmgr_info(function, &column->function);
}

static void PlanColumn(Column *column, Form_pg_attribute attribute, const char *word) {
  memset(column, 0, sizeof(*column));
  column->number = attribute->attnum;
  column->is_text = strchr(word, 't') != NULL;
  column->is_guarded = strchr(word, 'g') != NULL;
  column->is_by_value = attribute->attbyval;
  column->length = attribute->attlen;
  column->modifier = attribute->atttypmod;
  const Oid base = getBaseTypeAndTypmod(attribute->atttypid, &column->modifier);
  if (column->is_text)
    PlanText(column, base);
  else
    PlanBinary(column, base);
}

// `words`: one for each column of the image, from sql/native/module/apply_plan.sql.
static void PlanColumns(Applying *plan, Relation table, char *words) {
  const TupleDesc columns = RelationGetDescr(table);
  const Bitmapset *keys = RelationGetIndexAttrBitmap(table, INDEX_ATTR_BITMAP_KEY);
  char *rest = NULL;
  plan->columns = palloc(sizeof(Column) * (size_t)columns->natts);
  plan->count = 0;
  plan->updated = NULL;
  for (char *word = strtok_r(words, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
    const int number = atoi(word);
    const int member = number - FirstLowInvalidHeapAttributeNumber;
    if (number < 1 || number > columns->natts || plan->count == columns->natts)
      ereport(ERROR, errmsg("psp: table \"%s\" has no column %s", RelationGetRelationName(table), word));
    PlanColumn(&plan->columns[plan->count++], TupleDescAttr(columns, number - 1), word);
    if (!bms_is_member(member, keys)) plan->updated = bms_add_member(plan->updated, member);
  }
}

// Who has changed a table has renewed psp.tables in the same transaction.
static void CheckAllAreGiven(const Applying *plan, Relation table) {
  const TupleDesc columns = RelationGetDescr(table);
  int count = 0;
  for (int i = 0; i < columns->natts; ++i)
    count += !TupleDescAttr(columns, i)->attisdropped && TupleDescAttr(columns, i)->attgenerated == '\0';
  if (count != plan->count)
    ereport(
        ERROR, errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
        errmsg("psp: table \"%s\" has other columns than psp.tables tells", RelationGetRelationName(table)));
}

static Applying MakePlan(Oid function) {
  const uint64 changes_before = changes;
  const char *table_id = TableIdOf(function);
  const bytea *answer = (const bytea *)AskPsp(kAskApplyPlan, table_id);
  if (answer == NULL) ereport(ERROR, errmsg("psp: table %s is not in psp.tables", table_id));
  char *words = text_to_cstring((const text *)answer);
  Applying plan = {.function = function, .relation = (Oid)strtoul(words, &words, 10)};
  const Relation table = table_open(plan.relation, RowExclusiveLock);
  plan.memory = AllocSetContextCreate(CurrentMemoryContext, "psp_capture applying", ALLOCSET_SMALL_SIZES);
  const MemoryContext before = MemoryContextSwitchTo(plan.memory);
  PlanColumns(&plan, table, words);
  CheckAllAreGiven(&plan, table);
  MemoryContextSwitchTo(before);
  table_close(table, NoLock);
  plan.is_valid = changes == changes_before;
  return plan;
}

static Applying *PlanOf(Oid function) {
  bool is_known;
  if (plans == NULL) MakePlans();
  Applying *plan = hash_search(plans, &function, HASH_FIND, NULL);
  if (plan != NULL && plan->is_valid) return plan;
  const Applying made = MakePlan(function);
  plan = hash_search(plans, &function, HASH_ENTER, &is_known);
  if (is_known) MemoryContextSetParent(plan->memory, TopTransactionContext);
  *plan = made;
  MemoryContextSetParent(plan->memory, TopMemoryContext);
  return plan;
}

// Opens the table, locked, for which the plan is valid.
static Relation OpenTable(Oid function, Applying *plan) {
  for (;;) {
    CHECK_FOR_INTERRUPTS();
    const Applying *found = PlanOf(function);
    if (!found->is_valid) continue;
    const Relation table = table_open(found->relation, RowExclusiveLock);
    *plan = *found;
    if (plan->is_valid) return table;
    table_close(table, NoLock);
  }
}

// ---- values --------------------------------------------------------------------------------------------------------------------

static Datum ValueOf(Column *column, Datum given, bool is_null) {
  if (column->is_text) {
    char *value = NULL;
    if (!is_null) value = TextDatumGetCString(given);
    return InputFunctionCall(&column->function, value, column->input_type, column->modifier);
  }
  if (OidIsValid(column->function.fn_oid) && !is_null)
    given = FunctionCall3(&column->function, given, Int32GetDatum(column->modifier), BoolGetDatum(false));
  return given;
}

// The fields of a record that came, into `values`.
static void TakeFields(Datum record, TupleDesc type, Datum *values, bool *nulls) {
  const HeapTupleHeader header = DatumGetHeapTupleHeader(record);
  HeapTupleData row = {
      .t_len = HeapTupleHeaderGetDatumLength(header), .t_data = header, .t_tableOid = InvalidOid};
  ItemPointerSetInvalid(&row.t_self);
  heap_deform_tuple(&row, type, values, nulls);
}

// ---- calls ---------------------------------------------------------------------------------------------------------------------

typedef struct Call {
  Applying plan;
  RowWriter *writer;
  TupleDesc type;  // of the records that came
  Datum *fields;
  bool *field_nulls;
} Call;

// What is done to each record.
typedef void (*Act)(Call *);

static void TakeRow(Call *call) {
  const Applying *plan = &call->plan;
  TupleTableSlot *row = call->writer->row;
  ExecClearTuple(row);
  memset(row->tts_isnull, true, sizeof(bool) * (size_t)row->tts_tupleDescriptor->natts);
  for (int i = 0; i < plan->count; ++i) {
    Column *column = &plan->columns[i];
    row->tts_isnull[column->number - 1] = call->field_nulls[i];
    row->tts_values[column->number - 1] = ValueOf(column, call->fields[i], call->field_nulls[i]);
  }
  ExecStoreVirtualTuple(row);
}

static void Insert(Call *call) { InsertRow(call->writer); }

static void Upsert(Call *call) { UpsertRow(call->writer); }

static void Delete(Call *call) { DeleteRow(call->writer, NULL, NULL); }

// Whether the row that is there has other values than the one that came, in a column on which a guard depends.
static bool GivesUpKeys(RowWriter *writer, const void *context) {
  const Applying *plan = context;
  for (int i = 0; i < plan->count; ++i) {
    const Column *column = &plan->columns[i];
    const int n = column->number - 1;
    if (!column->is_guarded) continue;
    slot_getsomeattrs(writer->found, column->number);
    const bool was_null = writer->found->tts_isnull[n];
    if (was_null != writer->row->tts_isnull[n]) return true;
    if (!was_null && !datum_image_eq(writer->found->tts_values[n], writer->row->tts_values[n],
                                     column->is_by_value, column->length))
      return true;
  }
  return false;
}

static void MakeWay(Call *call) {
  TakeKeyOfRow(call->writer);
  DeleteRow(call->writer, GivesUpKeys, &call->plan);
}

static void CopyColumns(Applying *plan) {
  plan->memory = CurrentMemoryContext;
  plan->columns = memcpy(palloc(sizeof(Column) * (size_t)plan->count), plan->columns,
                         sizeof(Column) * (size_t)plan->count);
  for (int i = 0; i < plan->count; ++i) plan->columns[i].function.fn_mcxt = plan->memory;
}

// A value of another type would be taken for what it is not.
static void CheckTypes(const Call *call, bool are_keys) {
  const TupleDesc columns = RelationGetDescr(call->writer->table);
  bool are_right = call->type->natts == (are_keys ? call->writer->key_count : call->plan.count);
  for (int i = 0; are_right && i < call->type->natts; ++i) {
    const Oid expected = are_keys
                             ? getBaseType(TupleDescAttr(columns, call->writer->key_columns[i] - 1)->atttypid)
                             : call->plan.columns[i].comes_as;
    are_right = TupleDescAttr(call->type, i)->atttypid == expected;
  }
  if (!are_right)
    ereport(ERROR, errcode(ERRCODE_DATATYPE_MISMATCH),
            errmsg("psp: type %s is not of table \"%s\"", format_type_be(call->type->tdtypeid),
                   RelationGetRelationName(call->writer->table)));
}

static void Begin(Call *call, Oid function, Oid type, bool are_keys, AclMode rights) {
  CheckApplySession();
  const Relation table = OpenTable(function, &call->plan);
  if (pg_class_aclmask(RelationGetRelid(table), GetUserId(), rights, ACLMASK_ALL) != rights)
    aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_TABLE, RelationGetRelationName(table));
  call->writer = OpenRows(table, call->plan.updated);
  CopyColumns(&call->plan);
  call->type = lookup_rowtype_tupdesc(type, -1);
  CheckTypes(call, are_keys);
  if (are_keys) {
    call->fields = call->writer->key;
    call->field_nulls = call->writer->key_nulls;
  } else {
    call->fields = palloc(sizeof(Datum) * (size_t)call->type->natts);
    call->field_nulls = palloc(sizeof(bool) * (size_t)call->type->natts);
  }
}

static void End(Call *call) {
  const Relation table = call->writer->table;
  ReleaseTupleDesc(call->type);
  CloseRows(call->writer);
  table_close(table, NoLock);
}

static void ForEach(FunctionCallInfo fcinfo, bool are_keys, AclMode rights, Act act) {
  Call call;
  Datum record;
  bool is_null;
  if (PG_ARGISNULL(0)) return;
  ArrayType *records = PG_GETARG_ARRAYTYPE_P(0);
  Begin(&call, fcinfo->flinfo->fn_oid, ARR_ELEMTYPE(records), are_keys, rights);
  const ArrayIterator next = array_create_iterator(records, 0, NULL);
  while (array_iterate(next, &record, &is_null)) {
    if (is_null) ereport(ERROR, errmsg("psp: a record is NULL"));
    const MemoryContext before = MemoryContextSwitchTo(MemoryOfRow(call.writer));
    TakeFields(record, call.type, call.fields, call.field_nulls);
    if (!are_keys) TakeRow(&call);
    MemoryContextSwitchTo(before);
    act(&call);
    NextRow(call.writer);
  }
  End(&call);
}

PG_FUNCTION_INFO_V1(psp_apply_insert);
Datum psp_apply_insert(PG_FUNCTION_ARGS) {
  ForEach(fcinfo, false, ACL_INSERT, Insert);
  PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(psp_apply_upsert);
Datum psp_apply_upsert(PG_FUNCTION_ARGS) {
  ForEach(fcinfo, false, ACL_INSERT | ACL_UPDATE, Upsert);
  PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(psp_apply_delete);
Datum psp_apply_delete(PG_FUNCTION_ARGS) {
  ForEach(fcinfo, true, ACL_DELETE, Delete);
  PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(psp_apply_make_way);
Datum psp_apply_make_way(PG_FUNCTION_ARGS) {
  ForEach(fcinfo, false, ACL_DELETE, MakeWay);
  PG_RETURN_VOID();
}
