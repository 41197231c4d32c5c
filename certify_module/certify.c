// psp.certify_batch: certifies one batch, as sql/primary/daemon/certify_batch.sql does. Parameters and rows are described there.
#include "access/xact.h"
#include "certify_module/module.h"
#include "embedded/constants.h"
#include "executor/executor.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "tcop/utility.h"
#include "utils/fmgroids.h"
#include "utils/tuplestore.h"
#include "utils/uuid.h"

PG_MODULE_MAGIC;

// The tables' columns, as far as they are read or written.
enum { kDataTableId, kDataKey, kDataGlobalT, kDataSpId, kDataDeleted, kDataImage, kDataColumns };
static const char *const kData[kDataColumns] = {"table_id", "key", "global_t", "sp_id", "deleted", "image"};

enum {
  kLogTxId,
  kLogSpId,
  kLogGlobalT,
  kLogReason,
  kLogLostTableId,
  kLogLostKey,
  kLogWinnerT,
  kLogWinnerSpId,
  kLogLostUse,
  kLogDecidedMs,
  kLogColumns
};
static const char *const kTxLog[kLogColumns] = {"tx_id",         "sp_id",     "global_t", "reason",
                                                "lost_table_id", "lost_key",  "winner_t", "winner_sp_id",
                                                "lost_use",      "decided_ms"};

static const char *const kReplicationLog[] = {"global_t", "tx_id", "sp_id", "write_set"};
static const char *const kDecided[] = {"first_t", "last_t"};
static const char *const kLogStart[] = {"collected_t", "clock_ms"};
static const char *const kSemiPrimaries[] = {"forgotten_xid"};

// Of a transaction that came with the key that it had lost.
static const Parameter kLoss[] = {kLostTableId, kLostKey, kWinnerT, kWinnerSpId, kLostUse};

// What becomes of a transaction.
typedef struct Outcome {
  enum { kCommits, kAborts, kHasLost, kIsKnown } fate;
  int row;      // on which it has lost
  bool is_old;  // it does not commit, and may have committed long ago
} Outcome;

// The last version of a key.
typedef struct Last {
  bool is_there;  // otherwise it was collected, or there never was one
  ItemPointerData place;
  int64 global_t;
  int32 sp_id;
} Last;

typedef struct Batch {
  Parameters in;
  Outcome *outcomes;  // of each transaction
  Last *lasts;        // of each row of a transaction that may commit
  ReturnSetInfo *result;
  FunctionCallInfo call;
  EState *estate;
  Table data;
  Table tx_log;
  int64 collected_t;
  int64 clock_ms;
} Batch;

// ---- the rows that are returned ------------------------------------------------------------------------------------------------

enum { kAnswerReason = 2, kAnswerLoss = 3, kAnswerColumns = 8 };

// Most batches return none.
static void Return(Batch *batch, Datum values[kAnswerColumns], bool nulls[kAnswerColumns]) {
  if (batch->result->setResult == NULL) InitMaterializedSRF(batch->call, 0);
  tuplestore_putvalues(batch->result->setResult, batch->result->setDesc, values, nulls);
}

static void ReturnKnown(Batch *batch, int transaction, TupleTableSlot *row) {
  static const int kReturned[] = {kLogGlobalT, kLogReason,     kLogLostTableId, kLogLostKey,
                                  kLogWinnerT, kLogWinnerSpId, kLogLostUse};
  Datum values[kAnswerColumns] = {Int64GetDatum(transaction + 1)};
  bool nulls[kAnswerColumns] = {false};
  for (int n = 1; n < kAnswerColumns; ++n)
    values[n] = ColumnOf(&batch->tx_log, row, kReturned[n - 1], &nulls[n]);
  values[kAnswerColumns - 1] = Int32GetDatum(DatumGetInt16(values[kAnswerColumns - 1]));
  Return(batch, values, nulls);
}

static int64 BigEndian(const unsigned char *bytes, int count) {
  int64 number = 0;
  for (int i = 0; i < count; ++i) number = number << 8 | bytes[i];
  return number;
}

// Whether it may have committed long ago, for all that is known (psp.sp_of, psp.xid_of).
static bool MayBeForgotten(Batch *batch, int transaction) {
  const unsigned char *id = DatumGetUUIDP(ValueAt(&batch->in, kTxId, transaction))->data;
  if (id[6] >> 4 != 8) return true;
  Table semi_primaries;
  bool is_null;
  const Key key = {F_INT4EQ, Int32GetDatum((int32)BigEndian(id + 12, 4))};
  OpenTable(&semi_primaries, "semi_primaries", ACL_SELECT, kSemiPrimaries, lengthof(kSemiPrimaries));
  TupleTableSlot *row = FindRow(&semi_primaries, &key, 1);
  const bool may_be =
      row == NULL || BigEndian(id, 6) <= DatumGetInt64(ColumnOf(&semi_primaries, row, 0, &is_null));
  CloseTable(&semi_primaries);
  return may_be;
}

// Of one that is old, 0: it may be a request that was sent again, of one that has committed, and has lost against itself.
static void ReturnLost(Batch *batch, int transaction, int row) {
  const Last *last = &batch->lasts[row];
  Datum values[kAnswerColumns] = {Int64GetDatum(transaction + 1),
                                  (Datum)0,
                                  (Datum)0,
                                  ValueAt(&batch->in, kRowTableId, row),
                                  ValueAt(&batch->in, kRowKey, row),
                                  Int64GetDatum(last->global_t),
                                  Int32GetDatum(last->sp_id),
                                  ValueAt(&batch->in, kRowUse, row)};
  bool nulls[kAnswerColumns] = {false, !batch->outcomes[transaction].is_old, true, false, false, false,
                                false, IsNullAt(&batch->in, kRowUse, row)};
  Return(batch, values, nulls);
}

// Of one that came with a reason, or with the key that it had lost. It was not decided, or was forgotten since.
static void ReturnForgotten(Batch *batch, int transaction) {
  Datum values[kAnswerColumns] = {Int64GetDatum(transaction + 1), Int64GetDatum(0)};
  bool nulls[kAnswerColumns] = {false};
  for (int n = 0; n < (int)lengthof(kLoss); ++n) {
    values[kAnswerLoss + n] = ValueAt(&batch->in, kLoss[n], transaction);
    nulls[kAnswerLoss + n] = IsNullAt(&batch->in, kLoss[n], transaction);
  }
  values[kAnswerReason] = ValueAt(&batch->in, kReason, transaction);
  nulls[kAnswerReason] = !nulls[kAnswerLoss];
  Return(batch, values, nulls);
}

// ---- the rule --------------------------------------------------------------------------------------------------------------------

static void LookUpDecision(Batch *batch, int transaction) {
  Outcome *outcome = &batch->outcomes[transaction];
  const Key key = {F_UUID_EQ, ValueAt(&batch->in, kTxId, transaction)};
  TupleTableSlot *row = FindRow(&batch->tx_log, &key, 1);
  if (row != NULL) {
    outcome->fate = kIsKnown;
    ReturnKnown(batch, transaction, row);
  } else if (!IsNullAt(&batch->in, kReason, transaction)) {
    outcome->fate = kAborts;
    outcome->is_old = MayBeForgotten(batch, transaction);
    if (outcome->is_old) ReturnForgotten(batch, transaction);
  }
}

static void ReadLogStart(Batch *batch) {
  Table log_start;
  bool is_null;
  const Key key = {F_BOOLEQ, BoolGetDatum(true)};
  OpenTable(&log_start, "log_start", ACL_SELECT, kLogStart, lengthof(kLogStart));
  TupleTableSlot *row = FindRow(&log_start, &key, 1);
  if (row == NULL) ereport(ERROR, errmsg("psp: psp.log_start is empty"));
  batch->collected_t = DatumGetInt64(ColumnOf(&log_start, row, 0, &is_null));
  batch->clock_ms = DatumGetInt64(ColumnOf(&log_start, row, 1, &is_null));
  CloseTable(&log_start);
}

static void LookUpKey(Batch *batch, int row) {
  bool is_null;
  Last *last = &batch->lasts[row];
  const Key keys[] = {{F_INT4EQ, ValueAt(&batch->in, kRowTableId, row)},
                      {F_BYTEAEQ, ValueAt(&batch->in, kRowKey, row)}};
  TupleTableSlot *found = FindRow(&batch->data, keys, lengthof(keys));
  last->is_there = found != NULL;
  if (!last->is_there) {
    last->global_t = batch->collected_t;
    last->sp_id = 0;
    return;
  }
  last->place = found->tts_tid;
  last->global_t = DatumGetInt64(ColumnOf(&batch->data, found, kDataGlobalT, &is_null));
  last->sp_id = DatumGetInt32(ColumnOf(&batch->data, found, kDataSpId, &is_null));
}

static bool HasSeen(const Parameters *in, int transaction, int64 global_t) {
  const int to = Int4At(in, kSeenTo, transaction);
  for (int n = Int4At(in, kSeenFrom, transaction); n <= to; ++n)
    if (Int8At(in, kSeen, n - 1) == global_t) return true;
  return false;
}

// The rule: the key's last writer is neither below the watermark nor seen; or, where the version that the row replaces is
// known, newer than it.
static bool HasLostOn(const Batch *batch, int transaction, int row) {
  const Parameters *in = &batch->in;
  const Last *last = &batch->lasts[row];
  if (!IsNullAt(in, kRowKnownT, row)) return last->global_t > Int8At(in, kRowKnownT, row);
  if (last->global_t <= Int8At(in, kWatermark, transaction)) return false;
  return !last->is_there || !HasSeen(in, transaction, last->global_t);
}

static void CertifyRow(Batch *batch, int row) {
  const int transaction = TransactionOf(&batch->in, row);
  Outcome *outcome = &batch->outcomes[transaction];
  if (outcome->fate != kCommits) return;
  LookUpKey(batch, row);
  if (!HasLostOn(batch, transaction, row)) return;
  outcome->fate = kHasLost;
  outcome->is_old = MayBeForgotten(batch, transaction);
  outcome->row = row;
  ReturnLost(batch, transaction, row);
}

// ---- what is written ---------------------------------------------------------------------------------------------------------

// Nobody else writes these keys now (the scheduler's promise), so the place is still the row's, unless the row was collected
// after the snapshot. Then the executor runs the batch again.
static void WriteRow(Batch *batch, int row) {
  const Parameters *in = &batch->in;
  const int transaction = TransactionOf(in, row);
  if (batch->outcomes[transaction].fate != kCommits || !IsNullAt(in, kRowUse, row)) return;
  Last *last = &batch->lasts[row];
  const Row written = {.values = {[kDataTableId] = ValueAt(in, kRowTableId, row),
                                  [kDataKey] = ValueAt(in, kRowKey, row),
                                  [kDataGlobalT] = ValueAt(in, kGlobalT, transaction),
                                  [kDataSpId] = ValueAt(in, kSpId, transaction),
                                  [kDataDeleted] = ValueAt(in, kRowDeleted, row),
                                  [kDataImage] = ValueAt(in, kRowImage, row)},
                       .nulls = {[kDataImage] = IsNullAt(in, kRowImage, row)}};
  if (!last->is_there) {
    InsertRow(&batch->data, &written, batch->estate);
  } else if (!UpdateRow(&batch->data, &last->place, &written, batch->estate)) {
    ereport(ERROR, errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
            errmsg("a deleted key of this batch has been collected meanwhile"));
  }
}

static void Publish(Batch *batch) {
  const Parameters *in = &batch->in;
  Table log;
  OpenTable(&log, "replication_log", ACL_INSERT, kReplicationLog, lengthof(kReplicationLog));
  for (int i = 0; i < in->transactions; ++i) {
    if (batch->outcomes[i].fate != kCommits) continue;
    const Row row = {.values = {ValueAt(in, kGlobalT, i), ValueAt(in, kTxId, i), ValueAt(in, kSpId, i),
                                ValueAt(in, kWriteSet, i)}};
    InsertRow(&log, &row, batch->estate);
  }
  CloseTable(&log);
}

static void WriteNumbers(Batch *batch) {
  if (batch->in.last_t <= 0) return;
  Table decided;
  const Row row = {.values = {Int64GetDatum(batch->in.first_t), Int64GetDatum(batch->in.last_t)}};
  OpenTable(&decided, "decided", ACL_INSERT, kDecided, lengthof(kDecided));
  InsertRow(&decided, &row, batch->estate);
  CloseTable(&decided);
}

// The key on which it has lost in this batch.
static void FillInLoss(const Batch *batch, int lost_row, Row *row) {
  const Last *last = &batch->lasts[lost_row];
  row->values[kLogLostTableId] = ValueAt(&batch->in, kRowTableId, lost_row);
  row->values[kLogLostKey] = ValueAt(&batch->in, kRowKey, lost_row);
  row->values[kLogWinnerT] = Int64GetDatum(last->global_t);
  row->values[kLogWinnerSpId] = Int32GetDatum(last->sp_id);
  row->values[kLogLostUse] = ValueAt(&batch->in, kRowUse, lost_row);
  for (int column = kLogLostTableId; column < kLogLostUse; ++column) row->nulls[column] = false;
  row->nulls[kLogLostUse] = IsNullAt(&batch->in, kRowUse, lost_row);
}

// Why it came as one that must not commit: a key that it had lost, or the reason.
static void FillInReason(const Parameters *in, int transaction, Row *row) {
  for (int n = 0; n < (int)lengthof(kLoss); ++n) {
    row->values[kLogLostTableId + n] = ValueAt(in, kLoss[n], transaction);
    row->nulls[kLogLostTableId + n] = IsNullAt(in, kLoss[n], transaction);
  }
  row->values[kLogReason] = ValueAt(in, kReason, transaction);
  row->nulls[kLogReason] = !row->nulls[kLogLostTableId];
}

static void WriteDecision(Batch *batch, int transaction) {
  const Parameters *in = &batch->in;
  const Outcome *outcome = &batch->outcomes[transaction];
  if (outcome->fate == kIsKnown || outcome->is_old) return;
  Row row = {.values = {[kLogTxId] = ValueAt(in, kTxId, transaction),
                        [kLogSpId] = ValueAt(in, kSpId, transaction),
                        [kLogDecidedMs] = Int64GetDatum(batch->clock_ms)}};
  memset(row.nulls, true, sizeof(row.nulls));
  row.nulls[kLogTxId] = row.nulls[kLogSpId] = row.nulls[kLogDecidedMs] = false;
  if (outcome->fate == kCommits) {
    row.values[kLogGlobalT] = ValueAt(in, kGlobalT, transaction);
    row.nulls[kLogGlobalT] = false;
  } else if (outcome->fate == kHasLost) {
    FillInLoss(batch, outcome->row, &row);
  } else {
    FillInReason(in, transaction, &row);
  }
  row.values[kLogLostUse] = Int16GetDatum((int16)DatumGetInt32(row.values[kLogLostUse]));
  InsertRow(&batch->tx_log, &row, batch->estate);
}

// ---- the functions -----------------------------------------------------------------------------------------------------------

static void Begin(FunctionCallInfo call, Batch *batch) {
  batch->call = call;
  batch->result = (ReturnSetInfo *)call->resultinfo;
  if (batch->result == NULL || !IsA(batch->result, ReturnSetInfo) ||
      (batch->result->allowedModes & SFRM_Materialize) == 0)
    ereport(ERROR, errmsg("psp: psp.certify_batch must be called in FROM"));
  batch->result->returnMode = SFRM_Materialize;
  PreventCommandIfReadOnly("psp.certify_batch()");
  PreventCommandIfParallelMode("psp.certify_batch()");
  ReadParameters(call, &batch->in);
  batch->outcomes = palloc0(sizeof(Outcome) * (size_t)batch->in.transactions);
  batch->lasts = palloc0(sizeof(Last) * (size_t)batch->in.rows);
  batch->estate = CreateExecutorState();
  OpenTable(&batch->tx_log, "tx_log", ACL_SELECT | ACL_INSERT, kTxLog, kLogColumns);
  OpenTable(&batch->data, "data", ACL_SELECT | ACL_INSERT | ACL_UPDATE, kData, kDataColumns);
  ReadLogStart(batch);
}

PG_FUNCTION_INFO_V1(psp_certify_batch);
Datum psp_certify_batch(PG_FUNCTION_ARGS) {
  Batch batch = {.collected_t = 0};
  Begin(fcinfo, &batch);
  for (int i = 0; i < batch.in.transactions; ++i) LookUpDecision(&batch, i);
  for (int row = 0; row < batch.in.rows; ++row) {
    CHECK_FOR_INTERRUPTS();
    CertifyRow(&batch, row);
  }
  for (int row = 0; row < batch.in.rows; ++row) {
    CHECK_FOR_INTERRUPTS();
    WriteRow(&batch, row);
  }
  Publish(&batch);
  WriteNumbers(&batch);
  for (int i = 0; i < batch.in.transactions; ++i) WriteDecision(&batch, i);
  CloseTable(&batch.data);
  CloseTable(&batch.tx_log);
  FreeExecutorState(batch.estate);
  return (Datum)0;
}

// psp.certify_module_version(): of the statement whose work it does.
PG_FUNCTION_INFO_V1(psp_certify_module_version);
Datum psp_certify_module_version(PG_FUNCTION_ARGS) {
  (void)fcinfo;
  return Int32GetDatum(kCertifyModuleVersion);
}
