// One batch as one prepared statement: sql/primary/daemon/certify_batch.sql, or certify_by_module.sql where the server has the
// module psp_certify (certify_module/), which does the same. After that of a schema change, in the same transaction, what has
// become of the catalog: sql/primary/daemon/change_catalog.sql.
#pragma once

#include <libpq-fe.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/pg_session.h"
#include "primary/certify/batch_trouble.h"
#include "primary/certify/copies.h"
#include "primary/certify/types.h"

namespace psp::primary {

// Settings of each session that runs batches: the statement's plan must not depend on statistics.
std::vector<std::string> BatchSessionSettings();

// Declares the statements in the session.
void PrepareBatchStatements(PgSession& session);

// Why the session cannot use the module; empty: it can. Error: it cannot be asked now.
PgResult<std::string> ObjectionToModule(PgSession& session);

// Runs the batch in its own transaction. When it returns verdicts, they are on this server's disk. Whether they are on the required
// copies, only a look that follows tells (copies.h). Safe to repeat after any error, also when in doubt: psp.tx_log has what was
// decided the first time.
PgResult<std::vector<Verdict>> RunBatch(PgSession& session, CertifyBy by, const Batch& batch);

// The same without waiting, for batches with CanBeSent: a schema change is more than one statement.
bool CanBeSent(const Batch& batch);
// Before the first SentBatch of a connected session.
PgResult<Done> PrepareToSend(PgSession& session, CertifyBy by);

// One batch under way on a connection that nobody uses meanwhile, and the look that follows it. The caller polls the connection's
// socket.
class SentBatch {
 public:
  enum class State { kUnderWay, kDecided, kFailed };

  SentBatch(PGconn* connection, CertifyBy by, Batch batch, const RequiredCopies& copies);

  // To be called when the socket is ready. kDecided: the verdicts are on this server's disk, and the connection is free. kFailed:
  // nobody knows; RunBatch tells why, or what was decided.
  State Advance();
  // Otherwise the connection is broken.
  bool is_sent() const { return is_sent_; }
  // The socket must be polled for writing, too.
  bool has_unsent() const { return has_unsent_; }

  const Batch& batch() const { return batch_; }
  Batch TakeBatch() { return std::move(batch_); }
  std::vector<Verdict> Verdicts() const;      // when decided
  const Look& look() const { return look_; }  // when decided

 private:
  struct Clear {
    void operator()(PGresult* result) const { PQclear(result); }
  };

  // Sends what the socket takes; false when the connection is broken.
  bool Flush();
  // The results of one statement have ended: what comes next.
  State EndStatement();

  PGconn* const connection_;
  Batch batch_;
  const RequiredCopies& copies_;
  bool is_sent_ = false;
  bool has_unsent_ = false;
  bool has_failed_ = false;
  std::unique_ptr<PGresult, Clear> rows_;
  std::unique_ptr<PGresult, Clear> look_row_;
  bool looks_ = false;  // the batch has ended, and the look is under way
  Look look_ = kNoCopies;
};

}  // namespace psp::primary
