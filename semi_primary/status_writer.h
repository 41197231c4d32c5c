// The daemon's own session: claims the database, reads its identity, and once a second writes
// psp.daemon_status and, in native mode, clears away what finished transactions have left (psp.clean).
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "common/ids.h"
#include "common/log.h"
#include "common/pg_session.h"
#include "semi_primary/daemon_status.h"

namespace psp {

struct Identity {
  std::string cluster_id;  // 16 bytes
  SpId sp_id = 0;
  std::string token;
  std::string database;  // psp.this_database()
  GlobalT watermark = 0;
};

// Open and Identity reading on the caller's thread, before Start; Set from any thread.
class StatusWriter {
 public:
  StatusWriter(const std::string& conninfo, bool views_mode);
  ~StatusWriter() { Stop(); }

  // Connects, takes the lock that only one daemon can have, and writes down where the daemon is served: its
  // hook server's conninfo, or the endpoint for clients. In views mode transactions that were under way when
  // the last daemon ended become pending. The error says why this database cannot be served.
  Result<Identity, std::string> Open(const std::string& name, const std::string& served_at);
  void Start();
  // Writes the last status and joins the thread.
  void Stop();
  void Set(const DaemonStatus& status);

 private:
  void Run(std::stop_token stop);
  void Write(double seconds);
  void AdvanceSequences(GlobalT closed_t);

  void WriteServedAt(pqxx::work& tx, const std::string& served_at) const;

  const bool views_mode_;
  PgSession session_;
  std::mutex mutex_;
  DaemonStatus status_;  // guarded by mutex_
  // The thread's:
  DaemonStatus last_written_;
  bool sequences_due_ = true;
  LogOnce logged_;
  std::jthread thread_;
};

}  // namespace psp
