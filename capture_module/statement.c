// The DDL statement that runs, as PostgreSQL has read it. SQL's event triggers know neither its place in the message nor its tree.
#include "access/xact.h"
#include "capture_module/module.h"
#include "catalog/pg_type.h"
#include "commands/event_trigger.h"
#include "common/keywords.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "nodes/plannodes.h"
#include "parser/analyze.h"
#include "parser/parser.h"
#include "parser/scanner.h"
#include "tcop/pquery.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/portal.h"
#include "utils/snapmgr.h"

// A copy: PostgreSQL writes into its own while it runs it. Of this transaction; null: none has begun.
static struct {
  MemoryContext memory;
  Node *tree;
} statement;

static void ForgetStatement(void *argument) {
  (void)argument;
  memset(&statement, 0, sizeof(statement));
}

// psp.note_statement(), an event trigger on ddl_command_start.
PG_FUNCTION_INFO_V1(psp_note_statement);
Datum psp_note_statement(PG_FUNCTION_ARGS) {
  if (!CALLED_AS_EVENT_TRIGGER(fcinfo)) ereport(ERROR, errmsg("psp: psp_note_statement is an event trigger"));
  const EventTriggerData *event = (EventTriggerData *)fcinfo->context;
  if (statement.memory != NULL) MemoryContextDelete(statement.memory);
  const MemoryContext memory =
      AllocSetContextCreate(TopTransactionContext, "psp_capture statement", ALLOCSET_SMALL_SIZES);
  const MemoryContext before = MemoryContextSwitchTo(memory);
  MemoryContextCallback *callback = palloc0(sizeof(*callback));
  callback->func = ForgetStatement;
  MemoryContextRegisterResetCallback(memory, callback);
  statement.memory = memory;
  statement.tree = copyObject(event->parsetree);
  MemoryContextSwitchTo(before);
  return PointerGetDatum(NULL);
}

// ---- its text -------------------------------------------------------------------------------------------------------------------

// From the first token to the end of the last one, without comments around them. Errors: 42601 and others of the scanner.
static text *BetweenTokens(const char *bytes, int length) {
  core_yy_extra_type scanner;
  core_YYSTYPE value;
  YYLTYPE place;
  int begin = -1, end = 0;
  const core_yyscan_t state =
      scanner_init(pnstrdup(bytes, (Size)length), &scanner, &ScanKeywords, ScanKeywordTokens);
  scanner.escape_string_warning = false;  // PostgreSQL has given it
  while (core_yylex(&value, &place, state) != 0) {
    if (begin < 0) begin = place;
    end = place + (int)strlen(scanner.scanbuf + place);  // flex puts a zero behind the token
  }
  scanner_finish(state);
  return begin < 0 ? NULL : cstring_to_text_with_len(bytes + begin, end - begin);
}

// psp.text_in_message(): the part of the client's message that is the statement which begins. Null: code inside that message runs it.
PG_FUNCTION_INFO_V1(psp_text_in_message);
Datum psp_text_in_message(PG_FUNCTION_ARGS) {
  if (statement.tree == NULL || ActivePortal == NULL || list_length(ActivePortal->stmts) != 1)
    PG_RETURN_NULL();
  const PlannedStmt *planned = linitial_node(PlannedStmt, ActivePortal->stmts);
  if (planned->commandType != CMD_UTILITY || planned->stmt_location < 0 ||
      !equal(planned->utilityStmt, statement.tree))
    PG_RETURN_NULL();
  const char *bytes = ActivePortal->sourceText + planned->stmt_location;
  text *found = BetweenTokens(bytes, planned->stmt_len > 0 ? planned->stmt_len : (int)strlen(bytes));
  if (found == NULL) PG_RETURN_NULL();
  PG_RETURN_TEXT_P(found);
}

// ---- what a text means now --------------------------------------------------------------------------------------------------------

// Of these statements PostgreSQL has read the query completely, names and constants, when it begins. Others are a tree of words until then.
static bool HasAnalysedQuery(void) {
  return IsA(statement.tree, CreateTableAsStmt) && IsA(((CreateTableAsStmt *)statement.tree)->query, Query);
}

// Whether a text is one statement, and the noted one. equal() does not compare places in the text.
static bool ReadsAsStatement(const char *sent) {
  const List *found = raw_parser(sent, RAW_PARSE_DEFAULT);
  if (list_length(found) != 1) return false;
  RawStmt *raw = linitial_node(RawStmt, found);
  if (!HasAnalysedQuery()) return equal(raw->stmt, statement.tree);
  Node *other = parse_analyze_fixedparams(raw, sent, NULL, 0, NULL)->utilityStmt;
  if (other == NULL || !IsA(other, CreateTableAsStmt)) return false;
  // psp sends SELECT … INTO as CREATE TABLE … AS.
  ((CreateTableAsStmt *)other)->is_select_into = ((CreateTableAsStmt *)statement.tree)->is_select_into;
  return equal(other, statement.tree);
}

static void SetNamed(ArrayType *names, ArrayType *values) {
  Datum *name, *value;
  int count, value_count;
  deconstruct_array(names, TEXTOID, -1, false, TYPALIGN_INT, &name, NULL, &count);
  deconstruct_array(values, TEXTOID, -1, false, TYPALIGN_INT, &value, NULL, &value_count);
  for (int i = 0; i < Min(count, value_count); ++i) {
    const Setting setting = {TextDatumGetCString(name[i]), TextDatumGetCString(value[i])};
    SetForNow(&setting, 1);
  }
}

// psp.reads_as_statement(text, role, names and values of settings): whether PostgreSQL would read it as the statement that has begun, as this
// role and under these settings. An error is a no, but it needs a subtransaction. Null: none has begun.
PG_FUNCTION_INFO_V1(psp_reads_as_statement);
Datum psp_reads_as_statement(PG_FUNCTION_ARGS) {
  Oid user;
  int security;
  if (statement.tree == NULL) PG_RETURN_NULL();
  const char *sent = text_to_cstring(PG_GETARG_TEXT_PP(0));
  GetUserIdAndSecContext(&user, &security);
  SetUserIdAndSecContext(get_role_oid(NameStr(*PG_GETARG_NAME(1)), false),
                         security | SECURITY_LOCAL_USERID_CHANGE | SECURITY_RESTRICTED_OPERATION);
  const int nest_level = NewGUCNestLevel();
  SetNamed(PG_GETARG_ARRAYTYPE_P(2), PG_GETARG_ARRAYTYPE_P(3));
  PushActiveSnapshot(GetTransactionSnapshot());
  const bool is_same = ReadsAsStatement(sent);
  PopActiveSnapshot();
  AtEOXact_GUC(true, nest_level);
  SetUserIdAndSecContext(user, security);
  PG_RETURN_BOOL(is_same);
}
