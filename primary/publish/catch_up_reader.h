// Reads the log and the table for streams, on a thread and a PostgreSQL session of its own.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "common/pg_session.h"
#include "common/queue.h"
#include "primary/publish/streams.h"

namespace psp::primary {

using CatchUpRead = std::variant<ReadLog, ReadCopy>;
using CatchUpChunk = std::variant<LogChunk, EncodedCopyChunk>;

// Submit and TakeResults belong to the main thread. Each piece of work gives one result, in order. Work waits
// while PostgreSQL is away, and results until what they were read from is on the required copies.
class CatchUpReader {
 public:
  struct Options {
    std::string database;  // libpq conninfo
    Epoch epoch = 0;
    // Called after each connect: why this is not the server that the daemon serves; nothing is read there, and on_usurped is called.
    std::function<PgResult<std::string>(PgSession&)> other_server;
    std::function<void()> on_usurped;
    // Called after each read; returns when all that was read is on the required copies, or nothing when stopped.
    std::function<std::optional<PgResult<Done>>(PgSession&, std::stop_token)> prove;
  };

  explicit CatchUpReader(const Options& options);
  ~CatchUpReader();
  CatchUpReader(const CatchUpReader&) = delete;
  CatchUpReader& operator=(const CatchUpReader&) = delete;

  // There is at most one piece of work for each stream; waits when thousands are queued.
  void Submit(CatchUpRead work) { work_.Push(std::move(work)); }

  int fd() const { return results_.fd(); }
  std::vector<CatchUpChunk> TakeResults() { return results_.TakeAll(); }

 private:
  void Run(std::stop_token stop);
  // Nothing when stopped.
  std::optional<PgResult<CatchUpChunk>> Do(const CatchUpRead& work, std::stop_token stop);
  PgResult<CatchUpChunk> Do(const ReadLog& work);
  PgResult<CatchUpChunk> Do(const ReadCopy& work);

  bool Connect(std::stop_token stop);

  const Options options_;
  BoundedQueue<CatchUpRead> work_;
  Mailbox<CatchUpChunk> results_;
  PgSession session_;    // the thread's
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace psp::primary
