// Reads the log and the table for streams, on a thread and a PostgreSQL session of its own.
#pragma once

#include <functional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "common/pg_session.h"
#include "common/queue.h"
#include "primary/publish/streams.h"

namespace psp {

using RecovererWork = std::variant<ReadLog, ReadTable>;
using RecovererResult = std::variant<LogChunk, TableChunk>;

// Submit and TakeResults belong to the main thread. Each piece of work gives one result, in order; while
// PostgreSQL is away it waits.
class Recoverer {
 public:
  // `is_same_server` is asked after each connect; nothing is read from another one.
  Recoverer(std::string database, Epoch epoch, std::function<PgResult<bool>(PgSession&)> is_same_server);
  ~Recoverer();
  Recoverer(const Recoverer&) = delete;
  Recoverer& operator=(const Recoverer&) = delete;

  // There is at most one piece of work for each stream; waits when thousands are queued.
  void Submit(RecovererWork work) { work_.Push(std::move(work)); }

  int fd() const { return results_.fd(); }
  std::vector<RecovererResult> TakeResults() { return results_.TakeAll(); }

 private:
  void Run(std::stop_token stop);
  PgResult<RecovererResult> Do(const ReadLog& work);
  PgResult<RecovererResult> Do(const ReadTable& work);

  bool Connect(std::stop_token stop);

  const Epoch epoch_;
  const std::function<PgResult<bool>(PgSession&)> is_same_server_;
  BoundedQueue<RecovererWork> work_;
  Mailbox<RecovererResult> results_;
  PgSession session_;    // the thread's
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace psp
