// Finds the backends that block the apply worker, and ends them after the grace period. Has a thread and a
// PostgreSQL session of its own.
//
// A backend whose COMMIT is in flight is left alone: the conflict check will abort it, or it will commit, within
// commit_timeout_ms. A backend may be in the commit hook and not in flight for ever: a role that may call dblink
// can put a server that never answers in the place of the hook's connection. It is ended, too, and is told 08007.
// blocker_clocks.h decides which backend is ended, and when: a statement is cancelled first, and its session
// terminated if it has caught that. A prepared transaction is rolled back.
//
// Triggers of the application that fire for rows of others, and do not end, block the worker, too: its statement is cancelled after
// trigger_timeout_ms, and the function that writes the rows sets them aside (sql/native/install/triggers_aside.sql). If they catch that, the
// worker's session is terminated, and the function does so before it writes such rows again.
//
// So does other code of tables' owners that rows meet on their way: functions of indexes, generated columns, CHECKs. Statements that write rows are
// cancelled after the same time, and the worker is told (`ended_batch`).
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>

#include "common/clock.h"
#include "common/log.h"
#include "common/pg_session.h"
#include "semi_primary/apply/blocker_clocks.h"
#include "semi_primary/apply/trigger_clock.h"
#include "semi_primary/front/commits_in_flight.h"

namespace psp::sp {

// What the worker is doing, for the watch. Written by the worker, read by the watch; `ended_batch` the other way round.
struct ApplyActivity {
  // Monotonic time since which it has wanted the row locks of its current batch, including attempts in which
  // it gave way in a deadlock. 0: it neither holds nor wants any.
  std::atomic<std::int64_t> wanting_since_us{0};
  std::atomic<int> backend_pid{0};
  std::atomic<bool> has_session{false};  // as far as the worker knows
  // wanting_since_us of the batch whose rows the watch has ended last, since they took too long.
  std::atomic<std::int64_t> ended_batch{0};
};

class BlockerWatch {
 public:
  struct Options {
    std::string conninfo;
    std::string database;  // psp.this_database() of the one to look at
    std::int64_t conflict_grace_ms = 1000;
    std::int64_t commit_timeout_ms = 10000;
    std::int64_t trigger_timeout_ms = 60000;
  };

  // `activity` and `in_flight` must outlive this.
  BlockerWatch(const Options& options, ApplyActivity& activity, const CommitsInFlight& in_flight);

  void Start();
  void Stop();  // joins the thread
  // How many transactions it has ended. Any thread.
  std::uint64_t ended() const { return ended_; }

 private:
  void Run(std::stop_token stop);
  void LookForBlockers(std::int64_t batch);
  void End(const Blocker& blocker);
  void EndTriggers(std::int64_t batch);
  void Failed(const PgError& error);

  const std::string database_;
  ApplyActivity& activity_;
  const CommitsInFlight& in_flight_;
  PgSession session_;
  BlockerClocks clocks_;
  TriggerClock triggers_;
  LogOnce logged_;
  std::string failed_;
  std::atomic<std::uint64_t> ended_{0};
  std::jthread thread_;
};

}  // namespace psp::sp
