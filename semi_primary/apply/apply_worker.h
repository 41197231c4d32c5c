// Applies the stream to the semi-primary's tables: one thread, one PostgreSQL session.
//
// Invariants
// - Data and W change in one PostgreSQL transaction; steps are applied in order and nothing is skipped.
// - Before a batch takes its first row lock, every own transaction in it is proven in (psp.applied) or proven
//   not to come in by itself any more (own_commits.h). The latter's rows are applied like remote ones. A
//   backend between decision and COMMIT therefore never meets an apply worker that waits for it while
//   holding locks.
// - Only what a synchronous commit has put on the disk is reported as durable.
// - After a lost connection nothing is done before it is sure that this is the same database; in another one
//   applying stops for good. W is read again (PostgreSQL may have crashed and gone back) and the stream
//   begins again with the next generation; steps of older generations are dropped.
// - No error of PostgreSQL is final (reaction.h). What may pass is tried again in its place. Anything else is
//   told, and tried again in a new session, from where the database stands.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "common/pg_session.h"
#include "semi_primary/apply/batch.h"
#include "semi_primary/apply/blocker_watch.h"
#include "semi_primary/apply/inbox.h"
#include "semi_primary/apply/own_commits.h"
#include "semi_primary/apply/trouble.h"
#include "semi_primary/apply/types.h"

namespace psp {

class ApplyWorker {
 public:
  struct Options {
    std::string conninfo;
    std::string database;  // psp.this_database() of the one to apply to
    bool views_mode = false;
    std::int64_t ack_interval_ms = 1000;
    std::int64_t conflict_grace_ms = 1000;  // see InsistIfDue
    ApplyInbox::Limits limits;
  };

  // `report` is called on the worker's thread.
  ApplyWorker(Options options, std::function<void(ApplyEvent)> report);
  ~ApplyWorker() { Stop(); }

  void Start();
  // Waits for a statement that runs, makes what is applied durable, joins the thread.
  void Stop();

  ApplyInbox& inbox() { return inbox_; }
  const ApplyActivity& activity() const { return activity_; }

 private:
  enum class After { kGoOn, kBegin, kFailed };
  using Transactions = std::vector<ApplyTransaction>;

  void Run(std::stop_token stop);
  After Begin(std::stop_token stop);
  After FoundAnotherDatabase();
  PgResult<Done> ReadPosition();
  After Serve(std::stop_token stop);
  After LoadCatalogAgain(std::stop_token stop);
  After ApplySteps(const std::vector<ApplyStep>& steps, std::stop_token stop);
  After ApplyCopy(const ApplyStep& step, std::stop_token stop);
  After ApplyInParts(const Transactions& transactions, GlobalT closed_t, std::stop_token stop);
  After ApplyOnce(const std::vector<WrittenRows>& written,
                  const std::function<PgResult<Done>(const std::vector<TableChange>&)>& apply,
                  bool replace_all, bool* failed_itself, std::stop_token stop);
  void InsistIfDue(pqxx::work& tx) const;
  PgResult<Done> ApplyBatch(const std::vector<TableChange>& changes, const Transactions& transactions,
                            GlobalT closed_t);
  void RunStatements(pqxx::work& tx, const std::vector<TableChange>& changes);
  // After an error; has paused. kGoOn: do the same again. `blocked_at`: see Trouble::Stops.
  After Overcome(const PgError& error, std::stop_token stop, GlobalT blocked_at = -1);
  // Somebody must remove the cause.
  After Stopped(const std::string& sqlstate, const std::string& what, std::stop_token stop,
                GlobalT blocked_at);
  // An idle session hears of PostgreSQL's crash only when it asks; what the crash took must be fetched again.
  After LookAlive(std::stop_token stop);
  After MakeDurable(std::stop_token stop);
  bool DurableIsDue() const;
  void Report();

  const Options options_;
  const std::function<void(ApplyEvent)> report_;
  ApplyInbox inbox_;
  ApplyActivity activity_;
  PgSession session_;
  OwnCommits own_;
  Trouble trouble_;
  // Owned by the thread:
  TableCatalogPtr catalog_;
  std::uint64_t generation_ = 0;
  GlobalT watermark_ = 0;
  GlobalT durable_ = 0;
  bool joining_ = false;
  bool catalog_is_early_ = false;  // loaded before the copy, and with it psp_mrv.columns, was there
  std::int64_t copied_rows_ = 0;
  GlobalT complete_t_ = 0;  // while joining: the copy is a whole state once W has come here
  std::int64_t durable_at_us_ = 0;
  std::jthread thread_;
};

}  // namespace psp
