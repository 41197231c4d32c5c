#include "access/xact.h"
#include "capture_module/module.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "embedded/constants.h"
#include "fmgr.h"
#include "funcapi.h"
#include "libpq/pqformat.h"
#include "utils/backend_status.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/xid8.h"

// Where the chunks of a subtransaction begin, so that its ROLLBACK takes them away. Only subtransactions that have captured
// something have one, and a first one stands for the transaction itself.
typedef struct Mark {
  SubTransactionId subtransaction;
  int begin;
} Mark;

// The statement that has captured something of a table last.
typedef struct WrittenBy {
  uint32 number;
  uint64 query_id;
} WrittenBy;

enum { kWrittenMax = 16 };  // of more tables it is not told

// Of one transaction; its memory is that of TopTransactionContext.
static struct {
  StringInfo chunks;  // null: nothing was captured
  int chunk_begin;    // of the chunk that is being written
  Mark *marks;
  int mark_count;
  int mark_capacity;
  bool is_in_chunk;  // a chunk is being written: no code of users runs meanwhile
  bool has_sql_captured;
  bool has_queued_check;
  bool is_id_known;
  bool refuses_writes;
  int written_count;
  WrittenBy written[kWrittenMax];
} write_set;

// A chunk is record_send(ROW(cmin, table_id, op, payload)): its bytes before the payload, and where values stand in them.
enum {
  kCminPlace = 12,
  kNumberPlace = 24,
  kOpPlace = 36,
  kPayloadLengthPlace = 41,
  kPayloadPlace = 45,
};

// As psp.takes_serializable says.
static bool TakesSerializable(void) {
  static bool was_told = false;
  const char *setting = GetConfigOption("psp.serializable", true, false);
  if (setting == NULL || strcmp(setting, "repeatable read") != 0) return false;
  if (!was_told)
    ereport(NOTICE, errmsg("psp: SERIALIZABLE is taken for REPEATABLE READ, as psp.serializable says"),
            errdetail("Reads are not certified: two transactions at different semi-primaries may each read "
                      "what the other one writes."));
  was_told = true;
  return true;
}

static void RefuseSerializable(void) {
  ereport(
      ERROR, errcode(ERRCODE_FEATURE_NOT_SUPPORTED), errmsg("psp: SERIALIZABLE transactions cannot write"),
      errdetail(
          "Reads of other semi-primaries are not certified, so SERIALIZABLE would not mean what it says."),
      errhint("Use REPEATABLE READ; or SET psp.serializable = 'repeatable read', which takes the one for the "
              "other."));
}

static void CheckMayWrite(void) {
  if (write_set.refuses_writes) RaiseLateWrite();
}

static void OnSubtransactionEvent(SubXactEvent event, SubTransactionId id, SubTransactionId parent,
                                  void *argument) {
  (void)argument;
  if (event == SUBXACT_EVENT_ABORT_SUB) write_set.is_in_chunk = write_set.has_queued_check = false;
  if (write_set.mark_count == 0 || write_set.marks[write_set.mark_count - 1].subtransaction != id) return;
  Mark *last = &write_set.marks[write_set.mark_count - 1];
  if (event == SUBXACT_EVENT_ABORT_SUB) {
    write_set.chunks->len = last->begin;
    --write_set.mark_count;
  } else if (event == SUBXACT_EVENT_COMMIT_SUB) {
    if (write_set.mark_count > 1 && last[-1].subtransaction == parent)
      --write_set.mark_count;
    else
      last->subtransaction = parent;
  }
}

static void BeginWriteSet(void) {
  static bool is_registered = false;
  if (IsolationIsSerializable() && !TakesSerializable()) RefuseSerializable();
  if (!is_registered) RegisterSubXactCallback(OnSubtransactionEvent, NULL);
  is_registered = true;
  ExpectCommit();
}

// postgres_fdw's callback may be called before ours; a deferred trigger is called before both.
static void QueueCheckOfForeignTables(void) {
  if (write_set.has_queued_check || !HasForeignDataWrappers()) return;
  write_set.has_queued_check = true;
  (void)AskPsp(kAskBeginIntent, NULL);
}

static void BeginChunks(void) {
  BeginWriteSet();
  const MemoryContext before = MemoryContextSwitchTo(TopTransactionContext);
  write_set.mark_capacity = 8;
  write_set.marks = palloc(sizeof(Mark) * (size_t)write_set.mark_capacity);
  write_set.chunks = makeStringInfo();
  MemoryContextSwitchTo(before);
}

static void MarkSubtransaction(void) {
  const SubTransactionId id = GetCurrentSubTransactionId();
  if (write_set.mark_count > 0 && write_set.marks[write_set.mark_count - 1].subtransaction == id) return;
  if (write_set.mark_count == write_set.mark_capacity) {
    write_set.marks = repalloc(write_set.marks, sizeof(Mark) * 2 * (size_t)write_set.mark_capacity);
    write_set.mark_capacity *= 2;
  }
  write_set.marks[write_set.mark_count++] = (Mark){id, write_set.chunks->len};
}

static void CheckNoChunk(void) {
  if (write_set.is_in_chunk) ereport(ERROR, errmsg("psp: a row is captured while another one is captured"));
}

static void NoteStatement(uint32 number) {
  const uint64 query_id = (uint64)pgstat_get_my_query_id();
  int place = 0;
  if (query_id == 0) return;
  while (place < write_set.written_count && write_set.written[place].number != number) ++place;
  if (place == kWrittenMax) return;
  if (place == write_set.written_count) ++write_set.written_count;
  write_set.written[place] = (WrittenBy){number, query_id};
}

char *WritingStatements(void) {
  StringInfoData text;
  if (write_set.written_count == 0) return NULL;
  initStringInfo(&text);
  for (int i = 0; i < write_set.written_count; ++i)
    appendStringInfo(&text, "%s%u:" UINT64_FORMAT, i == 0 ? "" : ",", write_set.written[i].number,
                     write_set.written[i].query_id);
  return text.data;
}

StringInfo BeginChunk(uint32 number, char op) {
  CheckMayWrite();
  CheckNoChunk();
  if (write_set.chunks == NULL) BeginChunks();
  NoteStatement(number);
  QueueCheckOfForeignTables();
  MarkSubtransaction();
  StringInfo out = write_set.chunks;
  write_set.is_in_chunk = true;
  write_set.chunk_begin = out->len;
  pq_sendint32(out, 4);
  pq_sendint32(out, CIDOID);
  pq_sendint32(out, 4);
  pq_sendint32(out, GetCurrentCommandId(true));  // true: what SQL captures later has a later one
  pq_sendint32(out, INT4OID);
  pq_sendint32(out, 4);
  pq_sendint32(out, number);
  pq_sendint32(out, CHAROID);
  pq_sendint32(out, 1);
  pq_sendbyte(out, (uint8)op);
  pq_sendint32(out, BYTEAOID);
  pq_sendint32(out, 0);  // EndChunk knows it
  return out;
}

void CheckSize(Size bytes) {
  if (bytes > kWriteSetBytesLimit)
    ereport(ERROR, errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
            errmsg("psp: the write-set of %zu bytes is too large", bytes),
            errdetail("It is larger than any write_set_bytes_max of the daemons may be."),
            errhint("Split the transaction into smaller ones, a COPY into several, each of less than "
                    "write_set_bytes_max."));
}

void EndChunk(void) {
  StringInfo chunks = write_set.chunks;
  CheckSize((Size)chunks->len);
  const uint32 length = pg_hton32((uint32)(chunks->len - write_set.chunk_begin - kPayloadPlace));
  memcpy(chunks->data + write_set.chunk_begin + kPayloadLengthPlace, &length, sizeof(length));
  write_set.is_in_chunk = false;
}

StringInfo CapturedChunks(void) {
  return write_set.chunks != NULL && write_set.chunks->len > 0 ? write_set.chunks : NULL;
}

bool HasSqlCaptured(void) { return write_set.has_sql_captured; }

bool IsIdKnown(void) { return write_set.is_id_known; }

void NoteIdIsKnown(void) {
  ExpectCommit();  // whose end forgets it
  write_set.is_id_known = true;
}

void RefuseWrites(void) { write_set.refuses_writes = true; }

void AllowWrites(void) { write_set.refuses_writes = false; }

void ForgetWriteSet(void) { memset(&write_set, 0, sizeof(write_set)); }

// The trigger of psp.write_set: SQL has captured something.
PG_FUNCTION_INFO_V1(psp_on_sql_capture);
Datum psp_on_sql_capture(PG_FUNCTION_ARGS) {
  if (!CALLED_AS_TRIGGER(fcinfo)) ereport(ERROR, errmsg("psp: psp_on_sql_capture is a trigger"));
  CheckMayWrite();
  if (!write_set.has_sql_captured) BeginWriteSet();
  write_set.has_sql_captured = true;
  return PointerGetDatum(NULL);
}

static uint32 NumberAt(const char *bytes) {
  uint32 number;
  memcpy(&number, bytes, sizeof(number));
  return pg_ntoh32(number);
}

// psp.captured_here(): the chunks of this transaction as rows like those of psp.write_set.
PG_FUNCTION_INFO_V1(psp_captured_here);
Datum psp_captured_here(PG_FUNCTION_ARGS) {
  CheckNoChunk();
  const StringInfo chunks = CapturedChunks();
  InitMaterializedSRF(fcinfo, 0);
  const ReturnSetInfo *result = (ReturnSetInfo *)fcinfo->resultinfo;
  for (int at = 0; chunks != NULL && at < chunks->len;) {
    const char *chunk = chunks->data + at;
    const int length = (int)NumberAt(chunk + kPayloadLengthPlace);
    bytea *payload = palloc((Size)(VARHDRSZ + length));
    bool nulls[5] = {false};
    SET_VARSIZE(payload, VARHDRSZ + length);
    memcpy(VARDATA(payload), chunk + kPayloadPlace, (size_t)length);
    Datum values[5] = {FullTransactionIdGetDatum(GetTopFullTransactionId()),
                       Int32GetDatum((int32)NumberAt(chunk + kNumberPlace)), CharGetDatum(chunk[kOpPlace]),
                       PointerGetDatum(payload), CommandIdGetDatum(NumberAt(chunk + kCminPlace))};
    tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
    pfree(payload);
    at += kPayloadPlace + length;
  }
  return (Datum)0;
}
