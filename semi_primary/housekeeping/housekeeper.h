// The daemon's own thread and session, apart from applying: claims the database (claim.h), saves the
// primary's epochs, and once a second writes psp.daemon_status, looks after sequences and schema, and, in
// native mode, removes what finished transactions have left (psp.clean) and requests that are old (psp.remove_old_requests). After a lost connection it continues
// in the same database only.
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
#include "semi_primary/housekeeping/claim.h"
#include "semi_primary/housekeeping/daemon_status.h"
#include "semi_primary/housekeeping/schema_watch.h"
#include "semi_primary/housekeeping/sequence_keeper.h"

namespace psp::sp {

// Claim on the caller's thread, before Start; the other functions from any thread.
class Housekeeper {
 public:
  // request_retention_s: how long requests are known at least. Native mode.
  Housekeeper(const std::string& conninfo, bool views_mode, std::int64_t request_retention_s);
  ~Housekeeper() { Stop(); }

  // See ClaimDatabase.
  Result<Identity, StartProblem> Claim(const std::string& name, const std::string& served_at);
  // `on_saved` is called on the housekeeper's thread, when epochs are on the disk.
  void Start(std::function<void(const EpochStarts&)> on_saved);
  // Writes the last status and joins the thread.
  void Stop();
  void SetStatus(const DaemonStatus& status);
  struct Losses {
    std::string report;         // a JSON object; empty: none
    std::uint32_t catalog = 0;  // the version that its names are of
  };
  // Written with the next status: psp.conflicts shows them.
  void SetLosses(Losses losses);
  // Saves at once, and tries until it has succeeded. Newer epochs replace those that wait.
  void SaveEpochs(const EpochStarts& epochs);

 private:
  void Run(std::stop_token stop);
  bool TrySaveEpochs(const EpochStarts& epochs);
  void WriteStatus(double seconds);
  void KeepRequests();
  void CountAge(std::int64_t now_us);
  void LookAfterSchema();

  const std::string conninfo_;
  const bool views_mode_;
  const std::int64_t request_retention_s_;
  PgSession session_;
  std::string database_;  // the one that Claim has found
  std::mutex mutex_;
  std::condition_variable_any wake_up_;
  DaemonStatus status_;                 // guarded by mutex_
  Losses unwritten_losses_;             // guarded by mutex_
  std::optional<EpochStarts> unsaved_;  // guarded by mutex_
  std::function<void(const EpochStarts&)> on_saved_;
  // The thread's:
  SequenceKeeper sequences_;
  SchemaWatch schema_;
  DaemonStatus last_written_;
  std::int64_t align_at_us_ = 0;
  std::int64_t follow_at_us_ = 0;
  std::int64_t watch_at_us_ = 0;
  std::int64_t count_at_us_ = 0;
  std::optional<std::int64_t> counted_us_;  // up to when the age of requests has been counted
  // Old requests are being removed, up to this id, or have been when it is empty: all that were old when this generation was the newest.
  std::string request_position_;
  std::int32_t removed_generation_ = 0;
  // After a lost session PostgreSQL may have crashed. Until the apply worker has begun again, too, it is not
  // known whether own commits are missing.
  std::uint64_t sure_from_generation_ = 0;
  LogOnce logged_;
  std::jthread thread_;
};

}  // namespace psp::sp
