// The parameters of psp.certify_batch.
#include "catalog/pg_type.h"
#include "certify_module/module.h"
#include "utils/array.h"
#include "utils/uuid.h"

// How an array's elements are stored.
typedef struct Form {
  Oid type;
  int16 length;
  bool is_by_value;
  char align;
} Form;

static const Form kUuid = {UUIDOID, UUID_LEN, false, TYPALIGN_CHAR};
static const Form kInt4 = {INT4OID, sizeof(int32), true, TYPALIGN_INT};
static const Form kInt8 = {INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE};
static const Form kText = {TEXTOID, -1, false, TYPALIGN_INT};
static const Form kBytea = {BYTEAOID, -1, false, TYPALIGN_INT};
static const Form kBool = {BOOLOID, sizeof(bool), true, TYPALIGN_CHAR};

typedef struct Expected {
  const Form *form;
  Parameter as_many_as;
  bool may_have_nulls;
} Expected;

static const Expected kExpected[kArrays] = {
    [kTxId] = {&kUuid, kTxId, false},      [kSpId] = {&kInt4, kTxId, false},
    [kGlobalT] = {&kInt8, kTxId, false},   [kWatermark] = {&kInt8, kTxId, false},
    [kSeenFrom] = {&kInt4, kTxId, false},  [kSeenTo] = {&kInt4, kTxId, false},
    [kSeen] = {&kInt8, kSeen, false},      [kReason] = {&kText, kTxId, true},
    [kWriteSet] = {&kBytea, kTxId, true},  [kLostTableId] = {&kInt4, kTxId, true},
    [kLostKey] = {&kBytea, kTxId, true},   [kWinnerT] = {&kInt8, kTxId, true},
    [kWinnerSpId] = {&kInt4, kTxId, true}, [kLostUse] = {&kInt4, kTxId, true},
    [kRowI] = {&kInt4, kRowI, false},      [kRowTableId] = {&kInt4, kRowI, false},
    [kRowKey] = {&kBytea, kRowI, false},   [kRowDeleted] = {&kBool, kRowI, false},
    [kRowImage] = {&kBytea, kRowI, true},  [kRowKnownT] = {&kInt8, kRowI, true},
    [kRowUse] = {&kInt4, kRowI, true},
};

_Noreturn static void Refuse(int parameter, const char *problem) {
  ereport(ERROR, errmsg("psp: parameter $%d of psp.certify_batch %s", parameter + 1, problem));
}

static void ReadArray(Datum value, Parameters *in, Parameter which) {
  Array *array = &in->arrays[which];
  const Expected *expected = &kExpected[which];
  const Form *form = expected->form;
  ArrayType *elements = DatumGetArrayTypeP(value);
  if (!expected->may_have_nulls && array_contains_nulls(elements)) Refuse(which, "has a NULL");
  deconstruct_array(elements, form->type, form->length, form->is_by_value, form->align, &array->values,
                    &array->nulls, &array->count);
  if (array->count != in->arrays[expected->as_many_as].count) Refuse(which, "has another length");
}

static void CheckTransactions(const Parameters *in) {
  for (int i = 0; i < in->transactions; ++i) {
    if (Int4At(in, kSeenFrom, i) < 1) Refuse(kSeenFrom, "is not a place in $7");
    if (Int4At(in, kSeenTo, i) > in->arrays[kSeen].count) Refuse(kSeenTo, "is not a place in $7");
    if (IsNullAt(in, kReason, i) && IsNullAt(in, kWriteSet, i)) Refuse(kWriteSet, "lacks what is to commit");
  }
}

static void CheckRows(const Parameters *in) {
  for (int row = 0; row < in->rows; ++row) {
    const int transaction = TransactionOf(in, row);
    if (transaction < 0 || transaction >= in->transactions) Refuse(kRowI, "is no transaction's");
    if (!IsNullAt(in, kReason, transaction)) Refuse(kRowI, "is of one that must not commit");
  }
}

void ReadParameters(FunctionCallInfo call, Parameters *in) {
  if (call->nargs != kParameters) ereport(ERROR, errmsg("psp: psp.certify_batch has other parameters"));
  for (int i = 0; i < kParameters; ++i)
    if (call->args[i].isnull) Refuse(i, "is NULL");
  for (int i = 0; i < kArrays; ++i) ReadArray(call->args[i].value, in, (Parameter)i);
  in->transactions = in->arrays[kTxId].count;
  in->rows = in->arrays[kRowI].count;
  in->first_t = DatumGetInt64(call->args[kFirstT].value);
  in->last_t = DatumGetInt64(call->args[kLastT].value);
  CheckTransactions(in);
  CheckRows(in);
}
