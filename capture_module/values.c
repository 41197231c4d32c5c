#include "access/transam.h"
#include "access/tupdesc.h"
#include "capture_module/module.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "libpq/pqformat.h"
#include "parser/parse_coerce.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/float.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

typedef enum Form {
  kInt2,
  kInt4,
  kInt8,
  kString,      // text, varchar, char(n)
  kBinary,      // by the type's send function
  kOutput,      // as text, by the output function
  kCast,        // as text, by a cast function
  kRelabelled,  // as text, which it is already
  kNumeric,     // without zeros at its end
  kFloat4,      // -0 is 0, and there is one NaN
  kFloat8,
  kTrimmed,  // char without a length: blanks at its end count for nothing
} Form;

struct Value {
  AttrNumber number;  // of the column
  Oid written_as;     // the type in the record
  Form form;
  bool by_value;  // how PostgreSQL passes it, for comparisons
  int16 length;
  bool is_plain;   // the key's form `none`
  bool has_check;  // its type must be able to read the text
  bool has_settings;
  FmgrInfo function;
  FmgrInfo reader;
  Oid reader_type;
};

// Writes the value as the parser would cast it to text.
static void PlanCastToText(Value *value, Oid type) {
  Oid function = InvalidOid;
  bool is_varlena;
  switch (find_coercion_pathway(TEXTOID, type, COERCION_EXPLICIT, &function)) {
    case COERCION_PATH_FUNC:
      if (function >= FirstNormalObjectId || get_func_nargs(function) != 1)
        ereport(ERROR, errmsg("psp: values of type %s have a cast of a user",
                              format_type_be(type)));  // by_output is their form
      value->form = kCast;
      break;
    case COERCION_PATH_RELABELTYPE:
      value->form = kRelabelled;
      return;
    default:
      value->form = kOutput;
      getTypeOutputInfo(type, &function, &is_varlena);
  }
  fmgr_info(function, &value->function);
}

static void PlanText(Value *value, Oid type, const char *form) {
  const Oid base = getBaseType(type);
  value->written_as = TEXTOID;
  value->has_settings = base != TEXTOID && base != VARCHAROID && get_typtype(base) != TYPTYPE_ENUM;
  if (strcmp(form, "output") == 0) {
    Oid function;
    bool is_varlena;
    value->form = kOutput;
    getTypeOutputInfo(type, &function, &is_varlena);
    fmgr_info(function, &value->function);
    return;
  }
  PlanCastToText(value, base);
  if (strcmp(form, "text") != 0 && strcmp(form, "checked") != 0)
    ereport(ERROR, errmsg("psp: there is no form \"%s\"", form));
  if (strcmp(form, "checked") == 0) {
    Oid reader;
    value->has_check = true;
    getTypeInputInfo(base, &reader, &value->reader_type);
    fmgr_info(reader, &value->reader);
  }
}

static void PlanBinary(Value *value, Oid type) {
  Oid send;
  bool is_varlena;
  value->written_as = type;
  switch (type) {
    case INT2OID:
      value->form = kInt2;
      return;
    case INT4OID:
      value->form = kInt4;
      return;
    case INT8OID:
      value->form = kInt8;
      return;
    case TEXTOID:
    case VARCHAROID:
    case BPCHAROID:
      value->form = kString;
      return;
    default:
      value->form = kBinary;
      getTypeBinaryOutputInfo(type, &send, &is_varlena);
      fmgr_info(send, &value->function);
  }
}

static bool IsForm(const char *form, const char *name, Oid base, Oid needed) {
  if (strcmp(form, name) != 0) return false;
  if (base != needed)
    ereport(ERROR, errmsg("psp: values of type %s have no form \"%s\"", format_type_be(base), form));
  return true;
}

static void PlanValue(Value *value, Form_pg_attribute column, const char *form) {
  const Oid base = getBaseType(column->atttypid);
  memset(value, 0, sizeof(*value));
  value->number = column->attnum;
  value->by_value = column->attbyval;
  value->length = column->attlen;
  if (strcmp(form, "binary") == 0 || strcmp(form, "none") == 0) {
    PlanBinary(value, column->atttypid);
    value->is_plain = true;
  } else if (strcmp(form, "base") == 0) {
    PlanBinary(value, base);
  } else if (IsForm(form, "numeric", base, NUMERICOID)) {
    value->form = kNumeric;
    value->written_as = NUMERICOID;
  } else if (IsForm(form, "float", base, base == FLOAT4OID ? FLOAT4OID : FLOAT8OID)) {
    value->form = base == FLOAT4OID ? kFloat4 : kFloat8;
    value->written_as = base;
  } else if (IsForm(form, "trimmed", base, BPCHAROID)) {
    value->form = kTrimmed;
    value->written_as = TEXTOID;
  } else {
    PlanText(value, column->atttypid, form);
  }
}

Values PlanValues(Relation relation, char **words, int count) {
  const TupleDesc columns = RelationGetDescr(relation);
  Values values = {count, palloc(sizeof(Value) * Max(count, 1))};
  for (int i = 0; i < count; ++i) {
    const char *name = words[2 * i];
    int n = 0;
    while (n < columns->natts && (TupleDescAttr(columns, n)->attisdropped ||
                                  strcmp(NameStr(TupleDescAttr(columns, n)->attname), name) != 0))
      ++n;
    if (n == columns->natts)
      ereport(ERROR, errcode(ERRCODE_UNDEFINED_COLUMN),
              errmsg("psp: the capture of table \"%s\" names column \"%s\", which is not there",
                     RelationGetRelationName(relation), name));
    PlanValue(&values.members[i], TupleDescAttr(columns, n), words[2 * i + 1]);
  }
  return values;
}

static int FindInImage(const Value *member, const Values *image) {
  for (int i = 0; i < image->count; ++i)
    if (image->members[i].number == member->number) return i;
  return -1;
}

bool IsKeyInImage(const Values *key, const Values *image) {
  for (int i = 0; i < key->count; ++i) {
    const int place = FindInImage(&key->members[i], image);
    if (!key->members[i].is_plain || place < 0 || !image->members[place].is_plain) return false;
  }
  return true;
}

uint16 PlaceInImage(const Values *key, int n, const Values *image) {
  return (uint16)FindInImage(&key->members[n], image);
}

bool NeedSettings(const Values *values) {
  for (int i = 0; i < values->count; ++i)
    if (values->members[i].has_settings) return true;
  return false;
}

bool HasNull(const Values *values, TupleTableSlot *row) {
  for (int i = 0; i < values->count; ++i)
    if (slot_attisnull(row, values->members[i].number)) return true;
  return false;
}

bool AreDifferent(const Values *values, TupleTableSlot *one, TupleTableSlot *other) {
  for (int i = 0; i < values->count; ++i) {
    const Value *value = &values->members[i];
    bool is_null, other_is_null;
    const Datum datum = slot_getattr(one, value->number, &is_null);
    const Datum other_datum = slot_getattr(other, value->number, &other_is_null);
    if (is_null != other_is_null) return true;
    if (!is_null && !datum_image_eq(datum, other_datum, value->by_value, value->length)) return true;
  }
  return false;
}

// ---- writing ------------------------------------------------------------------------------------------------------------------

// Text goes in UTF8, which is the database's encoding (psp schema check).
static void AppendText(StringInfo out, const char *text, int length) {
  pq_sendint32(out, (uint32)length);
  appendBinaryStringInfo(out, text, length);
}

static void AppendVarlena(StringInfo out, Datum datum) {
  const struct varlena *text = PG_DETOAST_DATUM_PACKED(datum);
  AppendText(out, VARDATA_ANY(text), (int)VARSIZE_ANY_EXHDR(text));
}

static void AppendBytes(StringInfo out, const bytea *bytes) {
  const int length = (int)(VARSIZE(bytes) - VARHDRSZ);
  pq_sendint32(out, (uint32)length);
  appendBinaryStringInfo(out, VARDATA(bytes), length);
}

static void AppendTrimmed(StringInfo out, Datum datum) {
  const struct varlena *text = PG_DETOAST_DATUM_PACKED(datum);
  int length = (int)VARSIZE_ANY_EXHDR(text);
  while (length > 0 && VARDATA_ANY(text)[length - 1] == ' ') --length;
  AppendText(out, VARDATA_ANY(text), length);
}

static void AppendAsText(StringInfo out, Value *value, Datum datum) {
  if (value->form == kCast) datum = FunctionCall1(&value->function, datum);
  char *string =
      value->form == kOutput ? OutputFunctionCall(&value->function, datum) : TextDatumGetCString(datum);
  if (value->has_check) InputFunctionCall(&value->reader, string, value->reader_type, -1);
  AppendText(out, string, (int)strlen(string));
}

static void AppendFloat8(StringInfo out, float8 number) {
  pq_sendint32(out, sizeof(float8));
  pq_sendfloat8(out, isnan(number) ? get_float8_nan() : number + 0.0);
}

static void AppendFloat4(StringInfo out, float4 number) {
  pq_sendint32(out, sizeof(float4));
  pq_sendfloat4(out, isnan(number) ? get_float4_nan() : number + 0.0f);
}

static void AppendValue(StringInfo out, Value *value, Datum datum) {
  switch (value->form) {
    case kInt2:
      pq_sendint32(out, 2);
      pq_sendint16(out, (uint16)DatumGetInt16(datum));
      break;
    case kInt4:
      pq_sendint32(out, 4);
      pq_sendint32(out, (uint32)DatumGetInt32(datum));
      break;
    case kInt8:
      pq_sendint32(out, 8);
      pq_sendint64(out, (uint64)DatumGetInt64(datum));
      break;
    case kString:
      AppendVarlena(out, datum);
      break;
    case kBinary:
      AppendBytes(out, SendFunctionCall(&value->function, datum));
      break;
    case kOutput:
    case kCast:
    case kRelabelled:
      AppendAsText(out, value, datum);
      break;
    case kNumeric:
      AppendBytes(out, DatumGetByteaP(DirectFunctionCall1(numeric_send,
                                                          DirectFunctionCall1(numeric_trim_scale, datum))));
      break;
    case kFloat4:
      AppendFloat4(out, DatumGetFloat4(datum));
      break;
    case kFloat8:
      AppendFloat8(out, DatumGetFloat8(datum));
      break;
    case kTrimmed:
      AppendTrimmed(out, datum);
      break;
  }
}

void AppendRecord(StringInfo out, const Values *values, TupleTableSlot *row) {
  pq_sendint32(out, (uint32)values->count);
  for (int i = 0; i < values->count; ++i) {
    Value *value = &values->members[i];
    bool is_null;
    const Datum datum = slot_getattr(row, value->number, &is_null);
    pq_sendint32(out, value->written_as);
    if (is_null)
      pq_sendint32(out, (uint32)-1);
    else
      AppendValue(out, value, datum);
  }
}
