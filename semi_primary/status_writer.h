// The daemon's own session: claims the database, reads its identity, saves the primary's epochs, and once a
// second writes psp.daemon_status and, in native mode, clears away what finished transactions have left
// (psp.clean). After a lost connection it goes on in the same database only.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "common/epochs.h"
#include "common/ids.h"
#include "common/log.h"
#include "common/pg_session.h"
#include "common/start.h"
#include "semi_primary/daemon_status.h"

namespace psp {

struct Identity {
  std::string cluster_id;  // 16 bytes
  SpId sp_id = 0;
  std::string token;
  std::string database;  // psp.this_database()
  GlobalT watermark = 0;
  bool joining = false;
  bool may_lack_own = true;  // PostgreSQL may have crashed while no daemon looked
  EpochStarts epochs{};
};

// Open and Identity reading on the caller's thread, before Start; Set and SaveEpochs from any thread.
class StatusWriter {
 public:
  StatusWriter(const std::string& conninfo, bool views_mode);
  ~StatusWriter() { Stop(); }

  // Connects, takes the lock that only one daemon can have, and writes down where the daemon is served: its
  // hook server's conninfo, or the endpoint for clients. In views mode transactions that were under way when
  // the last daemon ended become pending. The error says why this database cannot be served.
  Result<Identity, StartProblem> Open(const std::string& name, const std::string& served_at);
  // `on_saved` is called on the writer's thread, when epochs are on the disk.
  void Start(std::function<void(const EpochStarts&)> on_saved);
  // Writes the last status and joins the thread.
  void Stop();
  void Set(const DaemonStatus& status);
  // At once, and until it has succeeded. Newer ones take the place of those that wait.
  void SaveEpochs(const EpochStarts& epochs);

 private:
  void Run(std::stop_token stop);
  bool Save(const EpochStarts& epochs);
  void Write(double seconds);
  void AdvanceSequences(GlobalT closed_t);
  void LookAfterSchema();

  void WriteServedAt(pqxx::work& tx, const std::string& served_at) const;

  const std::string conninfo_;
  const bool views_mode_;
  PgSession session_;
  std::string database_;  // the one that Open has found
  std::mutex mutex_;
  std::condition_variable_any wake_up_;
  DaemonStatus status_;                 // guarded by mutex_
  std::optional<EpochStarts> unsaved_;  // guarded by mutex_
  std::function<void(const EpochStarts&)> on_saved_;
  // The thread's:
  DaemonStatus last_written_;
  bool sequences_due_ = true;
  std::int64_t align_at_us_ = 0;
  std::int64_t watch_guard_at_us_ = 0;
  std::string warnings_;  // of psp.guard_warnings
  // After a lost session: until the apply worker, too, has begun again in what may have crashed, nobody knows
  // whether own commits are lacking.
  std::uint64_t sure_from_generation_ = 0;
  LogOnce logged_;
  std::jthread thread_;
};

}  // namespace psp
