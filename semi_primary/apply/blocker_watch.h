// Finds who holds up the apply worker, and ends him after the grace. Its own thread and PostgreSQL session.
//
// A backend that waits in the commit hook is left alone: it is doomed by the conflict check or about to
// commit, within commit_timeout_ms. Its grace begins anew when it leaves the hook.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "common/pg_session.h"

namespace psp {

// What the worker is doing, for the watch. Written by the worker, read by the watch.
struct ApplyActivity {
  std::atomic<std::int64_t> statement_since_us{0};  // monotonic; 0: it does not hold or want row locks
  std::atomic<int> backend_pid{0};
};

class BlockerWatch {
 public:
  // `is_in_hook` is called on the watch's thread. `activity` must outlive this.
  BlockerWatch(const std::string& conninfo, std::int64_t conflict_grace_ms, const ApplyActivity& activity,
               std::function<bool(int pid)> is_in_hook);

  void Start();
  void Stop();  // joins the thread

 private:
  using Name = std::pair<int, std::string>;  // pid and start of the transaction

  void Run(std::stop_token stop);
  void Look();
  void End(const Name& blocker, const std::string& state);

  const std::int64_t conflict_grace_us_;
  const ApplyActivity& activity_;
  const std::function<bool(int pid)> is_in_hook_;
  PgSession session_;
  std::map<Name, std::int64_t> blocking_since_us_;
  std::jthread thread_;
};

}  // namespace psp
