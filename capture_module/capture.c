// The AFTER ROW trigger of captured tables, psp.capture_N_row: it writes the row's chunks.
#include "capture_module/module.h"
#include "commands/trigger.h"
#include "fmgr.h"
#include "libpq/pqformat.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

// A guard key that a row takes, or a key to which it refers.
typedef struct OtherKey {
  char op;  // 'g' or 's'
  uint32 number;
  bool nulls_count;  // a key with a NULL in it is one, too
  Values values;
} OtherKey;

// What a trigger captures of its table. Lives until the relation's definition changes.
typedef struct Capturing {
  Oid trigger;  // the key
  Oid relation;
  bool is_valid;
  MemoryContext memory;
  uint32 table_id;
  Values image;
  Values key;
  bool is_key_in_image;
  bool needs_settings;
  int other_count;
  OtherKey *others;
} Capturing;

static HTAB *plans;

// ---- plans ---------------------------------------------------------------------------------------------------------------------

static void OnRelationChanged(Datum argument, Oid relation) {
  (void)argument;
  HASH_SEQ_STATUS all;
  Capturing *plan;
  hash_seq_init(&all, plans);
  while ((plan = hash_seq_search(&all)) != NULL)
    if (relation == InvalidOid || plan->relation == relation) plan->is_valid = false;
}

static void MakePlans(void) {
  HASHCTL control = {.keysize = sizeof(Oid), .entrysize = sizeof(Capturing), .hcxt = TopMemoryContext};
  plans = hash_create("psp_capture plans", 64, &control, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
  CacheRegisterRelcacheCallback(OnRelationChanged, (Datum)0);
}

// The words of a trigger, read one after the other.
typedef struct Words {
  char **next;
  char **end;
  Relation relation;
} Words;

static char *TakeWord(Words *words) {
  if (words->next == words->end)
    ereport(ERROR, errmsg("psp: the capture trigger of table \"%s\" has too few arguments",
                          RelationGetRelationName(words->relation)));
  return *words->next++;
}

static uint32 TakeNumber(Words *words) { return (uint32)strtoul(TakeWord(words), NULL, 10); }

static Values TakeValues(Words *words) {
  const int count = (int)TakeNumber(words);
  if (count < 0 || count > (words->end - words->next) / 2)
    ereport(ERROR, errmsg("psp: the capture trigger of table \"%s\" has too few arguments",
                          RelationGetRelationName(words->relation)));
  const Values values = PlanValues(words->relation, words->next, count);
  words->next += 2 * count;
  return values;
}

static void ReadWords(Capturing *plan, Words *words) {
  plan->table_id = TakeNumber(words);
  plan->image = TakeValues(words);
  plan->key = TakeValues(words);
  plan->is_key_in_image = IsKeyInImage(&plan->key, &plan->image);
  plan->needs_settings = NeedSettings(&plan->image) || NeedSettings(&plan->key);
  plan->others = palloc(sizeof(OtherKey) * (size_t)(words->end - words->next + 1));
  plan->other_count = 0;
  while (words->next != words->end) {
    OtherKey *other = &plan->others[plan->other_count++];
    other->op = TakeWord(words)[0];
    other->number = TakeNumber(words);
    other->nulls_count = TakeNumber(words) != 0;
    other->values = TakeValues(words);
    plan->needs_settings |= NeedSettings(&other->values);
  }
}

// Who owns a table could make a trigger with words of his own, as long as he may call the function (psp.prepare_tables). Only psp makes one
// of this name (psp.check_trigger), and each table's has the function of its number.
static void CheckTrigger(const Capturing *plan, const Trigger *trigger, Relation relation) {
  const char *function = get_func_name(trigger->tgfoid);
  if (strcmp(trigger->tgname, "psp_capture") == 0 && function != NULL &&
      strcmp(function, psprintf("capture_%u_row", plan->table_id)) == 0)
    return;
  ereport(ERROR, errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
          errmsg("psp: trigger \"%s\" of table \"%s\" is not psp's own", trigger->tgname,
                 RelationGetRelationName(relation)),
          errdetail("It calls a function that captures rows for psp."), errhint("Drop the trigger."));
}

static Capturing *PlanOf(const Trigger *trigger, Relation relation) {
  bool is_known;
  if (plans == NULL) MakePlans();
  Capturing *plan = hash_search(plans, &trigger->tgoid, HASH_ENTER, &is_known);
  if (!is_known) plan->memory = NULL;
  if (is_known && plan->is_valid) return plan;
  plan->is_valid = false;
  if (plan->memory == NULL)
    plan->memory = AllocSetContextCreate(TopMemoryContext, "psp_capture plan", ALLOCSET_SMALL_SIZES);
  MemoryContextReset(plan->memory);
  const MemoryContext before = MemoryContextSwitchTo(plan->memory);
  Words words = {trigger->tgargs, trigger->tgargs + trigger->tgnargs, relation};
  plan->relation = RelationGetRelid(relation);
  plan->is_valid = true;  // a change that is heard of meanwhile makes it invalid
  PG_TRY();
  {
    ReadWords(plan, &words);
    CheckTrigger(plan, trigger, relation);
  }
  PG_CATCH();
  {
    plan->is_valid = false;
    PG_RE_THROW();
  }
  PG_END_TRY();
  MemoryContextSwitchTo(before);
  return plan;
}

// ---- settings ------------------------------------------------------------------------------------------------------------------

// psp.text_settings in sql/native/install/capture.sql has the same.
static void SetTextSettings(void) {
  static const Setting settings[] = {
      {"search_path", "pg_catalog, pg_temp"},
      {"xmloption", "content"},
      {"datestyle", "ISO, MDY"},
      {"intervalstyle", "postgres"},
      {"extra_float_digits", "1"},
      {"bytea_output", "hex"},
      {"lc_monetary", "C"},
      {"timezone", "UTC"},
  };
  SetForNow(settings, lengthof(settings));
}

// Send functions write text in the client's encoding.
static void SetEncoding(int encoding) {
  if (PrepareClientEncoding(encoding) < 0 || SetClientEncoding(encoding) < 0)
    ereport(ERROR, errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
            errmsg("psp: cannot write in encoding %s", pg_encoding_to_char(encoding)));
}

// ---- capture -------------------------------------------------------------------------------------------------------------------

// record_send(ROW(key)), and with an image record_send(ROW(key, image)).
static void AppendNested(StringInfo out, const Values *values, TupleTableSlot *row) {
  pq_sendint32(out, BYTEAOID);
  const int length_place = out->len;
  pq_sendint32(out, 0);
  AppendRecord(out, values, row);
  const uint32 length = pg_hton32((uint32)(out->len - length_place - 4));
  memcpy(out->data + length_place, &length, sizeof(length));
}

static void CaptureKey(uint32 number, char op, const Values *key, TupleTableSlot *row) {
  StringInfo out = BeginChunk(number, op);
  pq_sendint32(out, 1);
  AppendNested(out, key, row);
  EndChunk();
}

static void CaptureRow(const Capturing *plan, TupleTableSlot *row) {
  StringInfo out = BeginChunk(plan->table_id, plan->is_key_in_image ? 'i' : 'u');
  if (plan->is_key_in_image) {
    pq_sendbyte(out, (uint8)plan->key.count);
    for (int i = 0; i < plan->key.count; ++i) pq_sendint16(out, PlaceInImage(&plan->key, i, &plan->image));
    AppendRecord(out, &plan->image, row);
  } else {
    pq_sendint32(out, 2);
    AppendNested(out, &plan->key, row);
    AppendNested(out, &plan->image, row);
  }
  EndChunk();
}

// `old`: the row that it replaces; null: none. Of an update only what has changed, but a row with a new key takes its guards again.
static void CaptureOtherKeys(const Capturing *plan, TupleTableSlot *row, TupleTableSlot *old,
                             bool has_new_key) {
  for (int i = 0; i < plan->other_count; ++i) {
    const OtherKey *other = &plan->others[i];
    if (old != NULL && !(has_new_key && other->op == 'g') && !AreDifferent(&other->values, row, old))
      continue;
    if (!other->nulls_count && HasNull(&other->values, row)) continue;
    CaptureKey(other->number, other->op, &other->values, row);
  }
}

static bool IsKeyChanged(const Capturing *plan, TupleTableSlot *old, TupleTableSlot *row) {
  if (!AreDifferent(&plan->key, old, row)) return false;
  StringInfoData before, after;
  initStringInfo(&before);
  initStringInfo(&after);
  AppendRecord(&before, &plan->key, old);
  AppendRecord(&after, &plan->key, row);
  return before.len != after.len || memcmp(before.data, after.data, (size_t)before.len) != 0;
}

static void Capture(const Capturing *plan, const TriggerData *data) {
  const TriggerEvent event = data->tg_event;
  if (TRIGGER_FIRED_BY_DELETE(event)) {
    CaptureKey(plan->table_id, 'd', &plan->key, data->tg_trigslot);
  } else if (TRIGGER_FIRED_BY_INSERT(event)) {
    CaptureRow(plan, data->tg_trigslot);
    CaptureOtherKeys(plan, data->tg_trigslot, NULL, true);
  } else {
    const bool has_new_key = IsKeyChanged(plan, data->tg_trigslot, data->tg_newslot);
    if (has_new_key) CaptureKey(plan->table_id, 'd', &plan->key, data->tg_trigslot);
    CaptureRow(plan, data->tg_newslot);
    CaptureOtherKeys(plan, data->tg_newslot, data->tg_trigslot, has_new_key);
  }
}

static void CaptureUnderSettings(const Capturing *plan, const TriggerData *data, int encoding) {
  const int nest_level = NewGUCNestLevel();
  PG_TRY();
  {
    if (encoding != PG_UTF8) SetEncoding(PG_UTF8);
    if (plan->needs_settings) SetTextSettings();
    Capture(plan, data);
  }
  PG_FINALLY();
  {
    if (encoding != PG_UTF8) SetEncoding(encoding);
  }
  PG_END_TRY();
  AtEOXact_GUC(true, nest_level);
}

PG_FUNCTION_INFO_V1(psp_capture_row);
Datum psp_capture_row(PG_FUNCTION_ARGS) {
  const TriggerData *data = (TriggerData *)fcinfo->context;
  if (!CALLED_AS_TRIGGER(fcinfo) || !TRIGGER_FIRED_AFTER(data->tg_event) ||
      !TRIGGER_FIRED_FOR_ROW(data->tg_event))
    ereport(ERROR, errmsg("psp: psp_capture_row is an AFTER ROW trigger"));
  const Capturing *plan = PlanOf(data->tg_trigger, data->tg_relation);
  const int encoding = pg_get_client_encoding();
  if (encoding == PG_UTF8 && !plan->needs_settings)
    Capture(plan, data);
  else
    CaptureUnderSettings(plan, data, encoding);
  return PointerGetDatum(NULL);
}
