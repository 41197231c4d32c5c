// Looks twice a second whether the primary's PostgreSQL answers, and how far its synchronous standbys are. With a thread and a session of its
// own, which writes nothing: it sees a server whose COMMITs wait or fail.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "common/pg_session.h"
#include "primary/certify/copies.h"
#include "primary/core/standstill.h"

namespace psp::primary {

// Any thread.
class ServerWatch {
 public:
  ServerWatch(const std::string& database, std::shared_ptr<const RequiredCopies> copies);
  ~ServerWatch() { thread_.request_stop(); }

  // What the last look has found. Nothing of executors.
  Sight sight() const;
  // What psp primary status tells from the next look on.
  void Tell(const std::optional<Standstill::Reason>& standstill, std::int64_t now_us);

 private:
  void Run(std::stop_token stop);
  // The error; empty: it has answered.
  std::string Look(Sight* found);

  const std::shared_ptr<const RequiredCopies> copies_;
  mutable std::mutex mutex_;
  Sight sight_;       // guarded by mutex_
  std::string name_;  // guarded by mutex_
  // The thread's:
  PgSession session_;
  WalPosition written_ = 0;  // at a look that not all copies had reached at the one before
  std::jthread thread_;      // last: it uses all of the above
};

}  // namespace psp::primary
