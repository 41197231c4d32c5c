#include <sys/socket.h>

#include "capture_module/module.h"
#include "libpq-fe.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/fd.h"
#include "storage/latch.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

enum { kConnectTimeoutMs = 5000, kSocketPlace = 0 };

// One for the session. Closed when something is unclear: then a new one is made.
static struct {
  PGconn *libpq;
  PGresult *result;  // of the last request
  WaitEventSet *events;
} connection;

void CloseDaemonConnection(void) {
  PQclear(connection.result);
  if (connection.events != NULL) FreeWaitEventSet(connection.events);
  if (connection.libpq != NULL) {
    PQfinish(connection.libpq);
    ReleaseExternalFD();
  }
  memset(&connection, 0, sizeof(connection));
}

// ---- connecting -------------------------------------------------------------------------------------------------------------

static void RaiseUnreachable(const char *why) {
  char *detail = pchomp(why);
  CloseDaemonConnection();
  ereport(
      ERROR, errcode(ERRCODE_CONNECTION_FAILURE),
      errmsg("psp: the semi-primary daemon cannot be reached, the transaction is rolled back"),
      errdetail_internal("%s", detail),
      errhint("Nothing was sent, so the transaction can be retried safely. Is psp-semi-primary running?"));
}

static void WaitWhileConnecting(void) {
  const TimestampTz end = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), kConnectTimeoutMs);
  PostgresPollingStatusType status = PGRES_POLLING_WRITING;
  while (status != PGRES_POLLING_OK) {
    const long left = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), end);
    if (status == PGRES_POLLING_FAILED) RaiseUnreachable(pstrdup(PQerrorMessage(connection.libpq)));
    if (left <= 0) RaiseUnreachable("timeout expired");
    (void)WaitLatchOrSocket(MyLatch,
                            WL_LATCH_SET | WL_EXIT_ON_PM_DEATH | WL_TIMEOUT |
                                (status == PGRES_POLLING_READING ? WL_SOCKET_READABLE : WL_SOCKET_WRITEABLE),
                            PQsocket(connection.libpq), left, PG_WAIT_EXTENSION);
    ResetLatch(MyLatch);
    CHECK_FOR_INTERRUPTS();
    status = PQconnectPoll(connection.libpq);
  }
}

void ConnectToDaemon(const char *conninfo) {
  CloseDaemonConnection();
  if (!AcquireExternalFD())
    ereport(ERROR, errcode(ERRCODE_CONNECTION_FAILURE),
            errmsg("psp: no file descriptor is left to reach the semi-primary daemon"),
            errhint("Raise max_files_per_process."));
  connection.libpq = PQconnectStart(conninfo);
  if (connection.libpq == NULL) {
    ReleaseExternalFD();
    ereport(ERROR, errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory"));
  }
  if (PQstatus(connection.libpq) == CONNECTION_BAD)
    RaiseUnreachable(pstrdup(PQerrorMessage(connection.libpq)));
  WaitWhileConnecting();
  PQsetnonblocking(connection.libpq, 1);
#if PG_VERSION_NUM >= 170000
  WaitEventSet *events = CreateWaitEventSet(NULL, 3);  // no resource owner: it outlives the transaction
#else
  WaitEventSet *events = CreateWaitEventSet(TopMemoryContext, 3);
#endif
  AddWaitEventToSet(events, WL_SOCKET_READABLE, PQsocket(connection.libpq), NULL, NULL);
  AddWaitEventToSet(events, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, NULL);
  AddWaitEventToSet(events, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET, NULL, NULL);
  connection.events = events;
}

bool IsConnectedToDaemon(void) {
  char byte;
  return connection.events != NULL && PQtransactionStatus(connection.libpq) == PQTRANS_IDLE &&
         recv(PQsocket(connection.libpq), &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
         (errno == EAGAIN || errno == EWOULDBLOCK);
}

// ---- asking -------------------------------------------------------------------------------------------------------------------

static void Wait(uint32 events) {
  WaitEvent happened;
  ModifyWaitEvent(connection.events, kSocketPlace, events, NULL);
  (void)WaitEventSetWait(connection.events, -1, &happened, 1, PG_WAIT_EXTENSION);
  ResetLatch(MyLatch);
  CHECK_FOR_INTERRUPTS();
}

static bool Send(const char *request) {
  if (!PQsendQuery(connection.libpq, request)) return false;
  for (int left = PQflush(connection.libpq); left != 0; left = PQflush(connection.libpq)) {
    if (left < 0) return false;
    Wait(WL_SOCKET_READABLE | WL_SOCKET_WRITEABLE);
    if (!PQconsumeInput(connection.libpq)) return false;
  }
  return true;
}

// The next result; null: the request is answered, or the connection is lost.
static PGresult *Receive(void) {
  while (PQisBusy(connection.libpq)) {
    Wait(WL_SOCKET_READABLE);
    if (!PQconsumeInput(connection.libpq)) break;
  }
  return PQgetResult(connection.libpq);
}

static const char *FieldOf(int field) {
  const char *text = PQresultErrorField(connection.result, field);
  return text == NULL ? "" : text;
}

static Answer ErrorAnswer(void) {
  const char *sqlstate = FieldOf(PG_DIAG_SQLSTATE);
  const char *message = FieldOf(PG_DIAG_MESSAGE_PRIMARY);
  Answer answer = {kAnswerError, message, sqlstate, FieldOf(PG_DIAG_MESSAGE_DETAIL),
                   FieldOf(PG_DIAG_MESSAGE_HINT)};
  if (sqlstate[0] == '\0') answer = (Answer){kAnswerLost, PQerrorMessage(connection.libpq), "", "", ""};
  return answer;
}

Answer AskDaemon(const char *request) {
  const Answer lost = {kAnswerLost, "", "", "", ""};
  PQclear(connection.result);
  connection.result = NULL;
  if (!Send(request)) return lost;
  for (PGresult *next = Receive(); next != NULL; next = Receive()) {
    PQclear(connection.result);
    connection.result = next;
    const ExecStatusType status = PQresultStatus(next);
    if (PQstatus(connection.libpq) == CONNECTION_BAD) break;
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK && status != PGRES_FATAL_ERROR)
      return lost;  // not the daemon
  }
  switch (PQresultStatus(connection.result)) {
    case PGRES_COMMAND_OK:
      return (Answer){kAnswerTag, PQcmdStatus(connection.result), "", "", ""};
    case PGRES_TUPLES_OK:
      if (PQntuples(connection.result) != 1) return lost;
      return (Answer){kAnswerText, PQgetvalue(connection.result, 0, 0), "", "", ""};
    default:
      return ErrorAnswer();
  }
}
