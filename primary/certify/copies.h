// On how many synchronous standbys what this server has written must be before it is told, and how far they are
// (docs/decisions/48-decided-means-durable.md).
#pragma once

#include <libpq-fe.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include "common/log.h"
#include "common/pg_session.h"
#include "primary/certify/proof_gate.h"

namespace psp::primary {

// Any thread reads, one observes. While the daemon runs, a list of standbys that is emptied changes nothing: PostgreSQL tells the waiting
// COMMITs then, without a warning, that they are done.
class RequiredCopies {
 public:
  int number() const { return number_; }

  // `at_least`: psp.cluster.copies. `named`: what synchronous_standby_names asks for; 0: the list is empty.
  void Observe(int at_least, int named) {
    if (named > 0) named_ = named;
    number_ = std::max(at_least, named_);
  }

 private:
  int named_ = 0;
  std::atomic<int> number_ = 0;
};

// What the database and PostgreSQL's settings say now.
struct CopiesSetting {
  int at_least = 0;
  int named = 0;
  int connected = 0;  // synchronous standbys
  bool may_see =
      false;         // else the session's role cannot see how far they are, and nothing would ever be proven
  int listed = 0;    // names in synchronous_standby_names
  bool any = false;  // one of them is *, so that every standby will do
};
CopiesSetting ReadCopiesSetting(pqxx::transaction_base& tx);

// Where fewer standbys must have a decision than are listed, a standby that is promoted may lack it, while the old primary goes on with the
// others (docs/decisions/67-every-standby-that-is-listed.md). Why it is so; empty: it is not. `required`: so many must have it.
std::string FewerThanListed(const CopiesSetting& setting, int required);

constexpr const char* kMayNotSee =
    "this role may not see how far the synchronous standbys are: GRANT pg_read_all_stats to the role that "
    "psp-primary connects as";

// Reads the setting again and observes it. Logs what an operator must know of it, once. `some_standbys`: that fewer standbys have a decision
// than are listed is meant so.
class CopiesWatch {
 public:
  CopiesWatch(std::shared_ptr<RequiredCopies> copies, bool some_standbys)
      : copies_(std::move(copies)), some_standbys_(some_standbys) {}
  PgResult<Done> Observe(PgSession& session);

 private:
  const std::shared_ptr<RequiredCopies> copies_;
  const bool some_standbys_;
  LogOnce logged_;
  std::string fewer_;  // what was logged of FewerThanListed
};

// After all that the session has committed or read before. With 0 copies nobody is asked.
PgResult<Look> LookAtCopies(PgSession& session, int copies);

inline constexpr std::int64_t kNoTimeLimit = std::numeric_limits<std::int64_t>::max();

// Looks again and again until the position is on the copies, and then returns the last look; an error ends it, too. Nothing when
// stopped, or when MonotonicUs() is behind `until_us`. Logs what it waits for after two seconds, and when the wait has ended. The position is on its way already: it needs no
// further WAL.
std::optional<PgResult<Look>> AwaitCopies(PgSession& session, const RequiredCopies& required,
                                          WalPosition position, std::stop_token stop,
                                          std::int64_t until_us = kNoTimeLimit);

// LookAtCopies and AwaitCopies of that position: for a session that has read something to tell.
std::optional<PgResult<Done>> ProveWhatWasRead(PgSession& session, const RequiredCopies& required,
                                               std::stop_token stop, std::int64_t until_us = kNoTimeLimit);

// LookAtCopies without waiting, for a connection that nobody else uses meanwhile. The statement is declared once for the session, and
// prepared at each connect. False: the connection is broken.
void PrepareLook(PgSession& session);
void PrepareLookNow(pqxx::nontransaction& tx);
bool SendLook(PGconn* connection, int copies);
// The row that it returns.
Look ReadLook(const PGresult* row);

}  // namespace psp::primary
