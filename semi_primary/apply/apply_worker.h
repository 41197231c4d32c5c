// Applies the stream to the semi-primary's tables: one thread, which does what the core decides (apply_core.h)
// in one PostgreSQL session.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <thread>

#include "semi_primary/apply/apply_core.h"
#include "semi_primary/apply/apply_meter.h"
#include "semi_primary/apply/apply_session.h"
#include "semi_primary/apply/blocker_watch.h"
#include "semi_primary/apply/inbox.h"
#include "semi_primary/apply/types.h"

namespace psp::sp {

class ApplyWorker {
 public:
  struct Options {
    std::string conninfo;
    std::string database;  // psp.this_database() of the one to apply to
    bool views_mode = false;
    bool may_set_deadlock_timeout = true;  // an administrator may have kept that from the daemon's role
    std::int64_t ack_interval_ms = 1000;
    std::int64_t conflict_grace_ms = 1000;
    ApplyInbox::Limits limits;
  };

  // `report` is called on the worker's thread.
  ApplyWorker(const Options& options, std::function<void(ApplyEvent)> report);
  ~ApplyWorker() { Stop(); }

  void Start();
  // Waits for a statement that runs, makes what is applied durable, joins the thread.
  void Stop();

  ApplyInbox& inbox() { return inbox_; }
  const ApplyActivity& activity() const { return activity_; }
  ApplyActivity& activity() { return activity_; }
  ApplyNumbers numbers() const { return meter_.numbers(); }

 private:
  void Run(const std::stop_token& stop);
  // Does the request and gives the core the answer.
  void Do(const ApplyRequest& request, const std::stop_token& stop);

  ApplyInbox inbox_;
  ApplyActivity activity_;
  ApplyMeter meter_;
  // Owned by the thread:
  ApplySession session_;
  ApplyCore core_;
  std::jthread thread_;
};

}  // namespace psp::sp
