// What the files of psp_certify share. Everything runs in a backend of PostgreSQL, in its one thread, and reports errors with
// ereport(ERROR), which does not return: PostgreSQL frees memory, locks and snapshots when it aborts the transaction.
#pragma once

#include "access/genam.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "nodes/execnodes.h"
#include "nodes/parsenodes.h"
#include "storage/itemptr.h"
#include "utils/relcache.h"

// ---- parameters.c: the parameters of psp.certify_batch -----------------------------------------------------------------------

// The arrays in their order, from 0 on: each is one less than in sql/primary/daemon/certify_batch.sql.
typedef enum Parameter {
  // Of each transaction:
  kTxId,
  kSpId,
  kGlobalT,
  kWatermark,
  kSeenFrom,
  kSeenTo,
  kSeen,  // all transactions' numbers, one after the other
  kReason,
  kWriteSet,
  kLostTableId,
  kLostKey,
  kWinnerT,
  kWinnerSpId,
  kLostUse,
  // Of each key:
  kRowI,
  kRowTableId,
  kRowKey,
  kRowDeleted,
  kRowImage,
  kRowKnownT,
  kRowUse,
  kArrays,
  // And two numbers:
  kFirstT = kArrays,
  kLastT,
  kParameters
} Parameter;

// Values that are no numbers point into the parameter.
typedef struct Array {
  int count;
  Datum *values;
  bool *nulls;
} Array;

typedef struct Parameters {
  Array arrays[kArrays];
  int transactions;
  int rows;
  int64 first_t;
  int64 last_t;
} Parameters;

// Errors, if they are not what the daemon sends: XX000, which the daemon takes for no transaction's fault.
void ReadParameters(FunctionCallInfo call, Parameters *parameters);

static inline Datum ValueAt(const Parameters *in, Parameter array, int place) {
  return in->arrays[array].values[place];
}
static inline bool IsNullAt(const Parameters *in, Parameter array, int place) {
  return in->arrays[array].nulls[place];
}
static inline int32 Int4At(const Parameters *in, Parameter array, int place) {
  return DatumGetInt32(ValueAt(in, array, place));
}
static inline int64 Int8At(const Parameters *in, Parameter array, int place) {
  return DatumGetInt64(ValueAt(in, array, place));
}
// The transaction to which a row belongs.
static inline int TransactionOf(const Parameters *in, int row) { return Int4At(in, kRowI, row) - 1; }

// ---- tables.c: rows of psp's tables, found by primary key and written without a statement ---------------------------------------

enum { kColumnsMax = 10, kKeyColumnsMax = 2 };

// A row to write. Column n is the one that OpenTable was given as n-th; all others are NULL.
typedef struct Row {
  Datum values[kColumnsMax];
  bool nulls[kColumnsMax];
} Row;

// A column of the primary key.
typedef struct Key {
  Oid equals;  // the function of its type's operator
  Datum value;
} Key;

// A table, for the time of one call.
typedef struct Table {
  Relation relation;
  int column_count;
  AttrNumber columns[kColumnsMax];
  // What is made when it is needed first:
  Relation key;  // the index of its primary key
  IndexScanDesc scan;
  TupleTableSlot *found;
  TupleTableSlot *written;
  ResultRelInfo *indexes;
} Table;

// The table psp.NAME, locked for writing. Errors: 42P01, 42703; 42501 if the caller lacks one of `rights`.
void OpenTable(Table *table, const char *name, AclMode rights, const char *const columns[], int count);
// Its lock stays until the transaction ends.
void CloseTable(Table *table);

// The row with this key in the active snapshot, valid until the next call; NULL: there is none.
TupleTableSlot *FindRow(Table *table, const Key keys[], int count);
Datum ColumnOf(const Table *table, TupleTableSlot *row, int column, bool *is_null);

void InsertRow(Table *table, const Row *row, EState *estate);
// Waits for others who write it. False: the row at this place has been updated or deleted meanwhile.
bool UpdateRow(Table *table, ItemPointer place, const Row *row, EState *estate);
