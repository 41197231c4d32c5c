// Gathers what becomes of transactions (thesis, section 4.3.3: the tx_status worker): from the reports of
// clients and daemons in psp_mrv.outcomes, and from samples of who waits for locks. At the end of each window
// it writes psp_mrv.status and tells the other workers.
#pragma once

#include <functional>
#include <pqxx/pqxx>
#include <stop_token>
#include <vector>

#include "mrv/outcomes.h"
#include "mrv/settings.h"
#include "mrv/window_board.h"
#include "mrv/worker_session.h"

namespace psp::mrv {

// Only one daemon serves a database: its status worker's session holds an advisory lock. Another daemon waits
// for it, and takes over when the first one has gone.
class StatusWorker {
 public:
  // `board` must outlive this. `on_serving` is called, on the worker's thread, each time this daemon begins
  // to serve the database.
  StatusWorker(const MrvSettings& settings, WindowBoard* board, std::function<void()> on_serving);

  // The thread's body; returns when stop is requested.
  void Run(std::stop_token stop);

 private:
  bool Begin(std::stop_token stop);  // false: stop
  bool Claim(std::stop_token stop);
  bool IsSampling() const { return is_installed_ && settings_.lock_sample_interval_ms > 0; }
  bool IsTrusted(const pqxx::field& other_owner);  // null: it is a superuser, or this session is none
  void SampleLocks();
  void CloseWindow();
  bool WriteStatus(const std::vector<Outcome>& outcomes, std::int64_t began_us, std::int64_t ended_us);

  const MrvSettings& settings_;
  WindowBoard* const board_;
  const std::function<void()> on_serving_;
  WorkerSession session_;
  Outcomes outcomes_;
  std::int64_t began_us_ = 0;      // of the open window, the database's clock
  std::int64_t close_at_us_ = 0;   // monotonic
  std::int64_t sample_at_us_ = 0;  // monotonic
  bool is_installed_ = false;      // there is a schema psp_mrv, and its functions may be run
  bool dropped_logged_ = false;
  bool distrust_logged_ = false;
};

}  // namespace psp::mrv
