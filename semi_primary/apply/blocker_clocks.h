// How long each local transaction has been what the apply worker waits for. Pure: no database, no clock.
//
// The worker waits for a transaction, that one perhaps for a second, that one for a third: only the last one,
// the root, can do something about it. So only roots are ended, after the grace, and a root's time begins
// when it becomes one: those who merely wait, and those whose COMMIT is under way, have none.
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
  std::string xact_start;       // with the pid it names the transaction
  std::string state;            // pg_stat_activity's
  bool is_root = false;         // waits for nobody, but for the worker perhaps, and is not at COMMIT
  bool is_in_deadlock = false;  // waits for the worker
  std::string rollback{};       // of a prepared transaction, which has no backend: the statement that ends it
  bool again = false;           // Look: it was to be ended before, and is still there
};

// Owned and used by one thread.
class BlockerClocks {
 public:
  // `look_every_us`: how often Look is meant to be called. Where it is called much later the whole machine
  // was busy or stood still, and nobody is blamed for that time.
  BlockerClocks(std::int64_t grace_us, std::int64_t look_every_us)
      : grace_us_(grace_us), look_every_us_(look_every_us) {}

  // What is seen now. `batch` differs from batch to batch and stays when the worker, having given way in a
  // deadlock, begins one again; who blocked an earlier attempt and is not seen in this moment is remembered.
  // Returns whose time is over; their time begins again.
  //
  // In a deadlock the time is twice as long: PostgreSQL's own detector comes first, whose error (40P01) is
  // the better one.
  std::vector<Blocker> Look(std::int64_t now_us, std::int64_t batch, const std::vector<Blocker>& blockers);

 private:
  using Name = std::pair<int, std::string>;

  const std::int64_t grace_us_;
  const std::int64_t look_every_us_;
  std::int64_t batch_ = 0;
  std::int64_t looked_us_ = 0;
  struct Root {
    std::int64_t since_us = 0;
    bool was_over = false;
  };
  std::map<Name, Root> roots_;
};

}  // namespace psp::sp
