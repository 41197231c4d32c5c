// For how long the apply worker has waited for each local transaction. Pure: no database, no clock.
//
// The worker may wait for a transaction that waits for another one, and so on. Only the last one, the root,
// can end this. So only roots are ended, after the grace, and a root's time begins when it becomes a root.
// Transactions that wait themselves, or whose COMMIT the daemon has been asked for, have no time. A backend that is in
// the commit hook, but whose request the daemon does not have, is about to send it or has had its answer: it is
// given the time of a whole COMMIT besides the grace.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace psp::sp {

// A transaction that the apply worker waits for, directly or through others.
struct Blocker {
  int pid = 0;
  std::string xact_start;  // with the pid it names the transaction
  std::string state;       // pg_stat_activity's
  bool is_root = false;  // waits for no transaction but perhaps the worker's, and its COMMIT is not in flight
  bool is_in_deadlock = false;  // waits for the worker
  std::string rollback{};       // of a prepared transaction, which has no backend: the statement that ends it
  bool is_committing = false;   // is in the commit hook
  bool again = false;           // TakeOverdue: it should have been ended before, and is still there
};

// Owned and used by one thread.
class BlockerClocks {
 public:
  struct Options {
    std::int64_t grace_us = 0;   // conflict_grace_ms of semi_primary/settings.cc
    std::int64_t commit_us = 0;  // what a COMMIT may take
    // How often TakeOverdue should be called. A much later call means that the whole machine was busy or stood still.
    // No transaction is blamed for that time.
    std::int64_t look_every_us = 0;
  };

  explicit BlockerClocks(const Options& options) : options_(options) {}

  // What is seen now. `batch` differs from batch to batch and stays when the worker, having given way in a
  // deadlock, begins one again; who blocked an earlier attempt and is not seen in this moment is remembered.
  // Returns whose time is over; their time begins again.
  //
  // In a deadlock the time is twice as long: PostgreSQL's own detector comes first, whose error (40P01) is
  // the better one.
  std::vector<Blocker> TakeOverdue(std::int64_t now_us, std::int64_t batch,
                                   const std::vector<Blocker>& blockers);

 private:
  using Name = std::pair<int, std::string>;

  std::int64_t GraceOf(const Blocker& blocker) const;

  const Options options_;
  std::int64_t batch_ = 0;
  std::int64_t looked_us_ = 0;
  struct Root {
    std::int64_t since_us = 0;
    bool was_over = false;
  };
  std::map<Name, Root> roots_;
};

}  // namespace psp::sp
