// COMMIT: what psp.commit_hook does in SQL (sql/native/install/hook.sql.j2). PostgreSQL calls it after all deferred triggers and
// cursors WITH HOLD, so that no code of users comes later.
#include "access/xact.h"
#include "capture_module/module.h"
#include "catalog/namespace.h"
#include "catalog/pg_collation.h"
#include "common/cryptohash.h"
#include "common/sha2.h"
#include "embedded/constants.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

PG_MODULE_MAGIC;

enum { kProofDigits = PG_SHA256_DIGEST_LENGTH };  // half of the digest's hexadecimal digits

typedef struct Commit {
  char *token;
  int attempt;  // of the transaction: each has an id of its own
  pg_uuid_t id;
  char tx_id[UUID_LEN * 2 + 4 + 1];  // as text
  char *head;                        // of the request: id, catalog version, snapshot
  char answer_proof[kProofDigits + 1];
} Commit;

// Between the decision and the end of the transaction no cancel is looked for.
static bool holds_interrupts;
static bool is_decided;        // before the end of the transaction: DecideNow
static int attempt_to_decide;  // DecideLater
static bool is_in_doubt;       // decided, and the client has not been told yet that it failed here
static char decided_id[UUID_LEN * 2 + 4 + 1];

// ---- proofs (sql/native/install/hook_daemon.sql.j2: psp.proofs) --------------------------------------------------------------------

// The hash of up to three pieces, one after the other.
static void HashOf(const void *const pieces[3], const size_t lengths[3],
                   uint8 hash[PG_SHA256_DIGEST_LENGTH]) {
  pg_cryptohash_ctx *context = pg_cryptohash_create(PG_SHA256);
  bool is_done = context != NULL && pg_cryptohash_init(context) == 0;
  for (int i = 0; i < 3 && is_done; ++i) is_done = pg_cryptohash_update(context, pieces[i], lengths[i]) == 0;
  is_done = is_done && pg_cryptohash_final(context, hash, PG_SHA256_DIGEST_LENGTH) == 0;
  pg_cryptohash_free(context);
  if (!is_done) ereport(ERROR, errcode(ERRCODE_OUT_OF_MEMORY), errmsg("psp: cannot compute a hash"));
}

// hex(sha256(token || message || sha256(bytes))); without bytes hex(sha256(token || message)).
static void Prove(const char *token, const char *message, const char *bytes, size_t length,
                  char digits[2 * kProofDigits + 1]) {
  uint8 inner[PG_SHA256_DIGEST_LENGTH], outer[PG_SHA256_DIGEST_LENGTH];
  if (bytes != NULL) HashOf((const void *[3]){bytes, "", ""}, (const size_t[3]){length, 0, 0}, inner);
  HashOf((const void *[3]){token, message, inner},
         (const size_t[3]){strlen(token), strlen(message), bytes == NULL ? 0 : sizeof(inner)}, outer);
  hex_encode((const char *)outer, sizeof(outer), digits);
  digits[2 * kProofDigits] = '\0';
}

// ---- the request --------------------------------------------------------------------------------------------------------------

static void PutBigEndian(unsigned char *bytes, int count, uint64 number) {
  for (int i = count - 1; i >= 0; --i, number >>= 8) bytes[i] = (unsigned char)number;
}

// psp.id_of_own_transaction makes the same id, of the first attempt.
static void MakeId(Commit *commit, int32 sp_id) {
  uint8 hash[PG_SHA256_DIGEST_LENGTH];
  char *to = commit->tx_id;
  const TimestampTz start =
      GetCurrentTransactionStartTimestamp() + (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY;
  const char *text = psprintf("%s " UINT64_FORMAT " %d " INT64_FORMAT ".%06d", commit->token,
                              U64FromFullTransactionId(GetTopFullTransactionId()), MyProcPid,
                              start / USECS_PER_SEC, (int)(start % USECS_PER_SEC));
  if (commit->attempt > 0) text = psprintf("%s %d", text, commit->attempt);
  HashOf((const void *[3]){text, "", ""}, (const size_t[3]){strlen(text), 0, 0}, hash);
  unsigned char *id = commit->id.data;
  PutBigEndian(id, 6, U64FromFullTransactionId(GetTopFullTransactionId()));
  memcpy(id + 6, hash, 6);
  id[6] = (unsigned char)((id[6] & 0x0f) | 0x80);
  id[8] = (unsigned char)((id[8] & 0x3f) | 0x80);
  PutBigEndian(id + 12, 4, (uint32)sp_id);
  for (int i = 0; i < UUID_LEN; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) *to++ = '-';
    to += hex_encode((const char *)&id[i], 1, to);
  }
  *to = '\0';
}

static void ReadCommit(Commit *commit) {
  CommitState state;
  if (!ReadCommitState(&state)) {
    (void)AskPsp(kAskRefuseOlder, NULL);
    pg_unreachable();
  }
  commit->token = state.token;
  MakeId(commit, state.sp_id);
  commit->head = psprintf("%s %d " INT64_FORMAT " %s", commit->tx_id, state.catalog_version, state.watermark,
                          state.seen);
}

// All that was captured; null: nothing.
static StringInfo GatherChunks(void) {
  StringInfo chunks = CapturedChunks();
  if (!HasSqlCaptured()) return chunks;
  const bytea *more = AskPsp(kAskCapturedBySql, NULL);
  if (more == NULL) return chunks;
  StringInfo all = makeStringInfo();
  if (chunks != NULL) appendBinaryStringInfo(all, chunks->data, chunks->len);
  CheckSize((Size)all->len + VARSIZE(more));
  appendBinaryStringInfo(all, VARDATA(more), (int)(VARSIZE(more) - VARHDRSZ));
  return all;
}

// `text bytes-as-hexadecimal-digits`.
static char *WithHex(const char *text, const char *bytes, size_t length) {
  const size_t text_length = strlen(text);
  char *request = MemoryContextAllocHuge(CurrentMemoryContext, text_length + 2 * length + 2);
  memcpy(request, text, text_length);
  request[text_length] = ' ';
  hex_encode(bytes, length, request + text_length + 1);
  request[text_length + 1 + 2 * length] = '\0';
  return request;
}

static char *CommitRequest(Commit *commit, const StringInfo chunks) {
  char digits[2 * kProofDigits + 1];
  Prove(commit->token, commit->head, chunks->data, (size_t)chunks->len, digits);
  strlcpy(commit->answer_proof, digits + kProofDigits, sizeof(commit->answer_proof));
  digits[kProofDigits] = '\0';
  return WithHex(psprintf("commit %s %s", commit->head, digits), chunks->data, (size_t)chunks->len);
}

// Held until this backend's transaction has ended, one way or the other. hook.sql.j2 says what for.
static void TakeLocks(const char *tx_id) {
  LOCKTAG tag;
  const Datum hash = DirectFunctionCall1Coll(hashtext, DEFAULT_COLLATION_OID, CStringGetTextDatum(tx_id));
  SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, kLockClass, DatumGetUInt32(hash), 2);
  (void)LockAcquire(&tag, ExclusiveLock, false, false);
  LockRelationOid(get_relname_relid("committing", get_namespace_oid("psp", false)), AccessShareLock);
}

// ---- the outcome --------------------------------------------------------------------------------------------------------------

static void RaiseUnknown(const Commit *commit, const char *message) {
  CloseDaemonConnection();
  ereport(ERROR, errcode(ERRCODE_TRANSACTION_RESOLUTION_UNKNOWN), errmsg("psp: %s", message),
          errdetail("Transaction %s may have been committed or not.", commit->tx_id),
          errhint("SELECT psp.outcome('%s') tells which, as soon as the daemon is back.", commit->tx_id));
}

// What a cancel or a failure leaves in doubt is an error of its own.
static void RaiseDisturbed(const Commit *commit, MemoryContext memory) {
  MemoryContextSwitchTo(memory);
  const ErrorData *error = CopyErrorData();
  FlushErrorState();
  if (error->sqlerrcode == ERRCODE_QUERY_CANCELED)
    RaiseUnknown(commit, "canceled while the transaction was being committed");
  RaiseUnknown(commit, psprintf("failed while the transaction was being committed: %s", error->message));
}

// Some libraries run a transaction again after a deadlock, and not after 40001.
static int CodeOf(const char *state) {
  const char *lost = GetConfigOption("psp.lost_sqlstate", true, false);
  if (strcmp(state, "40001") == 0 && lost != NULL && strcmp(lost, "40P01") == 0)
    return ERRCODE_T_R_DEADLOCK_DETECTED;
  return MAKE_SQLSTATE(state[0], state[1], state[2], state[3], state[4]);
}

// psp.conflicts shows with which statements transactions lose. An error here, such as a cancel, gives way to the one that follows.
static void TellStatements(const Commit *commit) {
  const MemoryContext memory = CurrentMemoryContext;
  const char *statements = WritingStatements();
  char digits[2 * kProofDigits + 1];
  if (statements == NULL) return;
  const char *words = psprintf("lost %s %s", commit->tx_id, statements);
  Prove(commit->token, words, NULL, 0, digits);
  digits[kProofDigits] = '\0';
  PG_TRY();
  { (void)AskDaemon(psprintf("%s %s", words, digits)); }
  PG_CATCH();
  {
    MemoryContextSwitchTo(memory);
    FlushErrorState();
  }
  PG_END_TRY();
}

// The daemon's own word (40001, 08006, …) is raised as it is, but for psp.lost_sqlstate.
void RaiseAnswer(const Answer *answer) {
  ereport(ERROR, errcode(CodeOf(answer->sqlstate)), errmsg_internal("%s", answer->message),
          answer->detail[0] == '\0' ? 0 : errdetail_internal("%s", answer->detail),
          answer->hint[0] == '\0' ? 0 : errhint("%s", answer->hint));
}

static void RaiseRefused(const Commit *commit, const Answer *answer) {
  if (answer->kind == kAnswerLost)
    RaiseUnknown(commit, "the semi-primary daemon was lost while the transaction was being committed");
  if (answer->kind != kAnswerError)
    RaiseUnknown(commit, "the answer to the COMMIT is not the semi-primary daemon's");
  if (strncmp(answer->message, "psp: ", 5) != 0 && strncmp(answer->sqlstate, "08", 2) == 0)
    RaiseUnknown(commit, psprintf("failed while the transaction was being committed: %s", answer->message));
  const Answer told = {answer->kind, pstrdup(answer->message), pstrdup(answer->sqlstate),
                       pstrdup(answer->detail), pstrdup(answer->hint)};
  if (strcmp(told.sqlstate, "40001") == 0) TellStatements(commit);
  RaiseAnswer(&told);
}

static bool IsDoubts(const Answer *answer) {
  return answer->kind == kAnswerTag && strcmp(answer->message, "PSP DOUBTS") == 0;
}

// The number of the answer "PSP global_t proof"; 0: it is another one.
static int64 DecisionOf(const Commit *commit, const Answer *answer) {
  char *end;
  if (answer->kind != kAnswerTag || strncmp(answer->message, "PSP ", 4) != 0) return 0;
  const int64 global_t = strtoll(answer->message + 4, &end, 10);
  return end[0] == ' ' && strcmp(end + 1, commit->answer_proof) == 0 ? global_t : 0;
}

// Nothing has been submitted yet: the daemon wants to know the rows under keys that were captured more than once. Returns the request
// that tells it.
static char *SettleDoubts(const Commit *commit) {
  char digits[2 * kProofDigits + 1];
  const Answer answer = AskDaemon(psprintf("doubts %s", commit->tx_id));
  const char *lines = answer.kind == kAnswerText && strlen(answer.message) > kProofDigits
                          ? answer.message + kProofDigits + 1
                          : "";
  Prove(commit->token, psprintf("doubts %s %s", commit->tx_id, lines), NULL, 0, digits);
  if (answer.kind != kAnswerText || strncmp(answer.message, digits, kProofDigits) != 0) {
    CloseDaemonConnection();
    ereport(ERROR, errcode(ERRCODE_CONNECTION_FAILURE),
            errmsg("psp: the semi-primary daemon was lost, the transaction is rolled back"),
            errhint("Nothing was submitted, so the transaction can be retried safely."));
  }
  const bytea *found = AskPsp(kAskLookUp, lines);
  const size_t length = VARSIZE(found) - VARHDRSZ;
  Prove(commit->token, psprintf("rows %s ", commit->tx_id), VARDATA(found), length, digits);
  digits[kProofDigits] = '\0';
  return WithHex(psprintf("rows %s %s", commit->tx_id, digits), VARDATA(found), length);
}

static Answer AskUndisturbed(const Commit *commit, const char *request) {
  const MemoryContext memory = CurrentMemoryContext;
  Answer answer = {kAnswerLost, "", "", "", ""};
  PG_TRY();
  { answer = AskDaemon(request); }
  PG_CATCH();
  { RaiseDisturbed(commit, memory); }
  PG_END_TRY();
  return answer;
}

// The transaction is committed everywhere but here.
static void NoteCommitted(const Commit *commit, int64 global_t) {
  const MemoryContext memory = CurrentMemoryContext;
  PG_TRY();
  { InsertApplied(global_t, &commit->id); }
  PG_CATCH();
  { RaiseDisturbed(commit, memory); }
  PG_END_TRY();
}

// ---- COMMIT ------------------------------------------------------------------------------------------------------------------

// The answer is another one than the decision to commit, or empty if there was nothing to decide.
static Answer AskForDecision(Commit *commit) {
  const Answer nothing = {kAnswerTag, "", "", "", ""};
  const StringInfo chunks = GatherChunks();
  if (chunks == NULL) return nothing;
  ReadCommit(commit);
  if (XactReadOnly)
    ereport(ERROR, errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION),
            errmsg("psp: a transaction that has written cannot be made read-only"),
            errhint("Leave out SET TRANSACTION READ ONLY."));
  if (!IsConnectedToDaemon()) ConnectToDaemon(text_to_cstring(AskPsp(kAskConninfo, NULL)));
  if (NeedsChecks()) (void)AskPsp(kAskCheckCommit, commit->tx_id);
  const char *request = CommitRequest(commit, chunks);
  TakeLocks(commit->tx_id);
  Answer answer = AskUndisturbed(commit, request);
  if (IsDoubts(&answer)) answer = AskUndisturbed(commit, SettleDoubts(commit));
  const int64 global_t = DecisionOf(commit, &answer);
  if (global_t == 0) return answer;
  strlcpy(decided_id, commit->tx_id, sizeof(decided_id));
  HOLD_INTERRUPTS();
  holds_interrupts = true;
  is_decided = is_in_doubt = true;
  NoteCommitted(commit, global_t);
  return nothing;
}

// In a memory context of its own: a procedure's COMMIT is in that of the procedure, which lives on.
static Answer Decide(int attempt, bool may_lose) {
  if (attempt > 0 && IsIdKnown())
    ereport(
        ERROR, errcode(CodeOf("40001")),
        errmsg(
            "psp: the statement has lost, and cannot be run again once it has asked for its transaction id"),
        errhint("Run the transaction again."));
  Commit commit = {.attempt = attempt};
  RefuseWrites();
  const MemoryContext memory =
      AllocSetContextCreate(TopTransactionContext, "psp_capture commit", ALLOCSET_DEFAULT_SIZES);
  const MemoryContext before = MemoryContextSwitchTo(memory);
  const Answer answer = AskForDecision(&commit);
  const bool is_refused = answer.kind != kAnswerTag || answer.message[0] != '\0';
  if (is_refused && !(may_lose && WinnerOf(&answer) > 0)) RaiseRefused(&commit, &answer);
  MemoryContextSwitchTo(before);
  MemoryContextDelete(memory);
  return answer;
}

static void CommitWithDaemon(void) {
  if (is_decided || (CapturedChunks() == NULL && !HasSqlCaptured())) return;
  (void)Decide(attempt_to_decide, false);
}

int64 WinnerOf(const Answer *answer) {
  static const char before_number[] = "(global_t ";
  if (answer->kind != kAnswerError || strcmp(answer->sqlstate, "40001") != 0) return 0;
  int64 winner = 0;  // the last one: before it stands the key, which may have any text
  for (const char *place = strstr(answer->detail, before_number); place != NULL;
       place = strstr(place, before_number)) {
    place += strlen(before_number);
    winner = strtoll(place, NULL, 10);
  }
  return winner;
}

Answer DecideNow(int attempt, bool may_lose) {
  const Answer nothing = {kAnswerTag, "", "", "", ""};
  if (CapturedChunks() == NULL && !HasSqlCaptured()) return nothing;
  const Answer answer = Decide(attempt, may_lose && !HasSqlCaptured() && !IsIdKnown());
  if (WinnerOf(&answer) > 0) AllowWrites();
  return answer;
}

void DecideLater(int attempt) { attempt_to_decide = attempt; }

bool IsDecided(void) { return is_decided; }

const char *TakeDoubt(void) {
  const bool was_in_doubt = is_in_doubt;
  is_in_doubt = false;
  return was_in_doubt ? decided_id : NULL;
}

void RaiseLateWrite(void) {
  if (!holds_interrupts)
    ereport(ERROR, errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
            errmsg("psp: the transaction is being committed, nothing more can be written in it"));
  ereport(ERROR, errcode(ERRCODE_TRANSACTION_RESOLUTION_UNKNOWN),
          errmsg("psp: the transaction is being committed, nothing more can be written in it"),
          errdetail("What transaction %s wrote before may have been committed or not.", decided_id),
          errhint("SELECT psp.outcome('%s') tells which.", decided_id));
}

static void RefusePrepare(void) {
  if (CapturedChunks() == NULL && !HasSqlCaptured()) return;
  ereport(ERROR, errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
          errmsg("psp: PREPARE TRANSACTION is not supported for transactions that write"),
          errhint("Use COMMIT."));
}

static void OnTransactionEvent(XactEvent event, void *argument) {
  (void)argument;
  switch (event) {
    case XACT_EVENT_PRE_COMMIT:
      CommitWithDaemon();
      break;
    case XACT_EVENT_PRE_PREPARE:
      RefusePrepare();
      break;
    case XACT_EVENT_COMMIT:
      if (holds_interrupts) RESUME_INTERRUPTS();
      holds_interrupts = is_decided = is_in_doubt = false;
      attempt_to_decide = 0;
      ForgetWriteSet();
      break;
    case XACT_EVENT_PREPARE:
    case XACT_EVENT_ABORT:
      holds_interrupts = is_decided = false;  // an error has ended all holds
      attempt_to_decide = 0;
      ForgetWriteSet();
      break;
    default:
      break;
  }
}

// Registered again by each transaction: callbacks are called in the order of their registration, the last one first. So a transaction
// that cannot be committed is refused before a foreign data wrapper commits its part.
void ExpectCommit(void) {
  is_in_doubt = false;  // of a transaction before: a procedure has caught its error
  UnregisterXactCallback(OnTransactionEvent, NULL);
  RegisterXactCallback(OnTransactionEvent, NULL);
}

// psp.module_version(): of the SQL that it works with.
PG_FUNCTION_INFO_V1(psp_module_version);
Datum psp_module_version(PG_FUNCTION_ARGS) {
  (void)fcinfo;
  return Int32GetDatum(kSemiPrimarySchemaVersion);
}
