// An error between the decision and the end of the transaction: PostgreSQL's own when its queue of notifications is full, or one of code that runs
// late. The transaction is committed at the other servers, and the client would take the error for a rollback.
#include "access/xact.h"
#include "capture_module/module.h"
#include "utils/elog.h"
#include "utils/memutils.h"

static emit_log_hook_type next_hook;

// PostgreSQL calls this hook just before it sends the error, unless log_min_messages keeps errors out of the server's log.
static void TellDoubt(ErrorData *error) {
  if (error->elevel >= ERROR) {
    const char *decided = TakeDoubt();
    if (decided != NULL && error->sqlerrcode != ERRCODE_TRANSACTION_RESOLUTION_UNKNOWN) {
      error->sqlerrcode = ERRCODE_TRANSACTION_RESOLUTION_UNKNOWN;
      error->message = psprintf("psp: failed after the transaction was decided: %s", error->message);
      error->detail = psprintf("Transaction %s may have been committed or not.", decided);
      error->hint = psprintf("SELECT psp.outcome('%s') tells which.", decided);
    }
  }
  if (next_hook != NULL) next_hook(error);
}

void TellLateErrors(void) {
  next_hook = emit_log_hook;
  emit_log_hook = TellDoubt;
}
