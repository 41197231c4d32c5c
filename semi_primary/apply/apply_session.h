// The apply worker's PostgreSQL session: what the core asks for, as SQL. One thread.
//
// Code of tables' owners runs in this session, and may replace statements that have a name. The statement without
// a name is out of its reach, so this one is parsed once as long as the same statement is run again and again. A text that
// has just come for the first time goes together with its parameters, in one message.
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "common/pg_session.h"
#include "semi_primary/apply/requests.h"

namespace psp::sp {

class ApplySession {
 public:
  // `database`: psp.this_database() of the one to apply to.
  ApplySession(std::string conninfo, std::string database, bool views_mode, bool may_set_deadlock_timeout);

  // False only when stop was requested.
  bool Connect(std::stop_token stop);
  void Close() { session_.Close(); }
  bool connected() const { return session_.connected(); }
  int backend_pid() const { return session_.backend_pid(); }

  PgResult<ApplyPosition> Position();
  PgResult<Done> Claim();
  PgResult<TableCatalogPtr> Catalog(bool in_open);
  PgResult<std::vector<GlobalT>> MissingProofs(const std::vector<GlobalT>& own);
  PgResult<bool> WaitForBackend(const TxId& tx_id);
  PgResult<Done> ApplyTemporary(const TxId& tx_id, GlobalT global_t);
  PgResult<std::vector<GlobalT>> Run(const RunStatements& run);
  PgResult<Done> LookAlive();

 private:
  PgResult<std::vector<GlobalT>> RunInOpen(const RunStatements& run);
  template <class Tx>
  std::vector<GlobalT> RunAll(Tx& tx, const RunStatements& run);
  template <class Tx>
  std::vector<GlobalT> RunSome(Tx& tx, std::span<const ApplyStatement> statements,
                               std::span<const GlobalT> own);
  template <class Tx>
  pqxx::result RunCall(Tx& tx, const SqlCall& call);
  // For everything but Run: another statement without a name takes the place of the one that was parsed.
  PgSession& Session() {
    parsed_.clear();
    return session_;
  }

  const std::string database_;
  const bool views_mode_;
  PgSession session_;
  std::string parsed_;  // the text of the statement without a name; empty: none, or another
  std::string last_;    // the text that RunCall has run last
};

}  // namespace psp::sp
