#include "semi_primary/apply/statements.h"

#include <initializer_list>
#include <utility>

#include "common/pg_binary.h"

namespace psp::sp {
namespace {

// Builds the columns of the SELECT. Names are qualified and types are given: a table's owner may have changed
// the search_path. (sql/semi_primary/install/apply_functions.sql)
class Columns {
 public:
  Columns(std::span<const GlobalT> own, SqlCall* call) : call_(*call) {
    if (own.empty()) return;
    ArrayWriter numbers(kOidInt8);
    for (const GlobalT global_t : own) numbers.AddInt8(global_t);
    source_ = " FROM (SELECT psp.missing_proofs(" + Parameter(numbers.Finish()) +
              "::pg_catalog.int8[]) AS missing OFFSET 0) AS psp_own";
    call_.text = "SELECT psp_own.missing";
  }

  void Finish() { call_.text += source_; }

  void operator()(const InsistOnLocks& /*statement*/) { Add("psp.insist_on_locks", {}); }
  void operator()(const SetAside& aside) {
    ArrayWriter tables(kOidInt8);
    for (const std::uint32_t table_id : aside.table_ids) tables.AddInt8(table_id);
    ArrayWriter refusals(kOidText);
    for (const std::string& refusal : aside.refusals) refusals.Add(std::string_view(refusal));
    Add("psp.set_aside", {Parameter(tables.Finish()) + "::pg_catalog.int8[]",
                          Parameter(refusals.Finish()) + "::pg_catalog.text[]"});
  }
  void operator()(const TakeAdvisoryLocks& locks) {
    Add("psp.wait_for_advisory_locks", {Parameter(std::string(locks.keys)) + "::pg_catalog.int8[]"});
  }
  void operator()(const ClearTable& clear) { Add(Function("apply_clear_", clear.table_id), {}); }
  void operator()(const BeginCopy& /*statement*/) { Add("psp.begin_copy", {}); }
  void operator()(const DeleteRows& rows) {
    Add(Function("apply_delete_", rows.table_id), {Parameter(std::string(rows.keys))});
  }
  void operator()(const MakeWay& rows) {
    Add(Function("apply_make_way_", rows.table_id), {Parameter(std::string(rows.rows))});
  }
  void operator()(const WriteRows& rows) {
    Add(Function(rows.are_new ? "apply_insert_" : "apply_upsert_", rows.table_id),
        {Parameter(std::string(rows.rows))});
  }
  void operator()(const ResolveOwn& own) {
    Add("psp.resolve", {Parameter(own.tx_id.ToBytes()) + "::pg_catalog.uuid", Int8(own.global_t)});
  }
  void operator()(const ResetSession& /*statement*/) { Add("psp.reset_apply_session", {}); }
  void operator()(const EndBatch& end) {
    Add("psp.end_batch", {Int8(end.below), Int8(end.upto), Bool(end.durable), Bool(end.joined)});
  }

 private:
  // Arguments in braces are evaluated in their order, and so are their numbers.
  void Add(const std::string& function, std::initializer_list<std::string> arguments) {
    call_.text += call_.text.empty() ? "SELECT " : ", ";
    if (!source_.empty()) call_.text += "CASE WHEN psp_own.missing IS NULL THEN ";
    call_.text += function + "(";
    const char* separator = "";
    for (const std::string& argument : arguments) {
      call_.text += separator + argument;
      separator = ", ";
    }
    call_.text += source_.empty() ? ")" : ") END";
  }
  static std::string Function(const char* name, std::uint32_t table_id) {
    return std::string("psp.") + name + std::to_string(table_id);
  }
  std::string Parameter(std::string bytes) {
    call_.parameters.push_back(std::move(bytes));
    return "$" + std::to_string(call_.parameters.size());
  }
  std::string Int8(std::int64_t value) {
    std::string bytes;
    AppendInt64(&bytes, value);
    return Parameter(std::move(bytes)) + "::pg_catalog.int8";
  }
  std::string Bool(bool value) {
    return Parameter(std::string(1, value ? '\1' : '\0')) + "::pg_catalog.bool";
  }

  SqlCall& call_;
  std::string source_;  // of the proofs; empty: nobody asks for any
};

}  // namespace

void AppendRows(const std::vector<TableChange>& changes, bool are_new, ApplyStatements* statements) {
  for (const TableChange& change : changes) {
    const std::uint32_t table_id = change.table->table_id;
    if (!change.delete_keys.empty()) statements->push_back(DeleteRows{table_id, change.delete_keys});
    if (change.upsert_values.empty()) continue;
    if (change.make_way) statements->push_back(MakeWay{table_id, change.upsert_values});
    statements->push_back(WriteRows{table_id, change.upsert_values, change.replace || are_new});
  }
}

SqlCall SqlOf(std::span<const ApplyStatement> statements, std::span<const GlobalT> own) {
  SqlCall call;
  Columns columns(own, &call);
  for (const ApplyStatement& statement : statements) std::visit(columns, statement);
  columns.Finish();
  return call;
}

}  // namespace psp::sp
