// Which of this semi-primary's own transactions are in its database already, when the stream reaches their
// markers. Used by the apply worker's thread, with its session, before the batch takes its first row lock.
//
// Native mode: the backend that commits it writes the proof; until it has ended its advisory lock is waited
// for. Views mode: the local worker that applies it writes the proof; here the same function is called, which
// waits for the local worker, and does its work if it has not begun. What is still not in (the backend died,
// temporary rows were lost in a crash) is applied from its write-set.
#pragma once

#include <stop_token>
#include <vector>

#include "common/pg_session.h"
#include "semi_primary/apply/blocker_watch.h"
#include "semi_primary/apply/types.h"

namespace psp {

class OwnCommits {
 public:
  // Declares its statements in the session. Both must outlive this.
  OwnCommits(PgSession* session, ApplyActivity* activity, bool views_mode);

  // Afterwards only what is to be applied has a write-set: remote transactions, and own ones that are not in.
  // An error of PostgreSQL may pass, and then this is called again; kReconnect also when stop was requested,
  // or when rows are needed that are not known here: the stream, begun again, brings them.
  PgResult<Done> Prove(std::vector<ApplyTransaction>* transactions, std::stop_token stop);

  // In the batch's transaction: own transactions that the batch applies are committed (views mode's log).
  void Resolve(pqxx::work& tx, const std::vector<ApplyTransaction>& transactions) const;

 private:
  PgResult<std::vector<GlobalT>> Missing(const std::vector<ApplyTransaction>& transactions);
  PgResult<Done> WaitForBackend(const ApplyTransaction& transaction, std::stop_token stop);
  PgResult<Done> ApplyHere(const ApplyTransaction& transaction, std::stop_token stop);

  PgSession& session_;
  ApplyActivity& activity_;
  const bool views_mode_;
};

}  // namespace psp
