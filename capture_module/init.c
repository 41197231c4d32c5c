// PostgreSQL calls this when it has loaded the module: at the session's begin where session_preload_libraries names it, otherwise when it first calls one of its functions.
#include "capture_module/module.h"
#include "fmgr.h"

PGDLLEXPORT void _PG_init(void);
void _PG_init(void) {
  TellLateErrors();
  RunStatementsAgain();
  RunConcurrentlyPlain();
  BeReadOnlyWhileBroken();
}
