// Notices when the transaction for which tables are held has ended, since no code of psp's runs at a ROLLBACK. Has a thread and a PostgreSQL
// session of its own, which it begins when tables are held for the first time.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "common/log.h"
#include "common/pg_session.h"

namespace psp::sp {

class HoldWatch {
 public:
  // `database`: psp.this_database() of the one to look at. `on_ended` is called on the watch's thread.
  HoldWatch(const std::string& conninfo, std::string database,
            std::function<void(std::uint64_t transaction)> on_ended);

  void Start();
  void Stop();  // joins the thread
  // From any thread, as often as one likes: the transaction to look at (its xid8), or none.
  void Watch(std::optional<std::uint64_t> transaction);

 private:
  void Run(std::stop_token stop);
  bool HasEnded(std::uint64_t transaction);

  const std::string database_;
  const std::function<void(std::uint64_t)> on_ended_;
  PgSession session_;
  LogOnce logged_;
  std::mutex mutex_;
  std::condition_variable_any wake_up_;
  std::optional<std::uint64_t> transaction_;  // guarded by mutex_
  std::jthread thread_;
};

}  // namespace psp::sp
