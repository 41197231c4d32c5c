// Views mode's front: clients' commit requests go through the sessions and their local workers, and become
// submissions.
#pragma once

#include <optional>
#include <zmq.hpp>

#include "common/queue.h"
#include "common/sockets.h"
#include "semi_primary/front.h"
#include "semi_primary/session/garbage_collector.h"
#include "semi_primary/session/local_workers.h"
#include "semi_primary/session/sessions.h"
#include "semi_primary/settings.h"
#include "semi_primary/status_writer.h"

namespace psp {

class SessionFront : public Front {
 public:
  SessionFront(const SemiPrimarySettings& settings, const Identity& identity, zmq::context_t* context);

  Result<Done, std::string> Start() override;
  std::array<int, 2> fds() override { return {clients_->fd(), results_.fd()}; }
  bool HasInput() override { return clients_->HasInput(); }
  void Take(SemiPrimaryCore* core, std::int64_t now_us) override;
  void Answer(Submissions::Reply reply, SemiPrimaryCore* core, std::int64_t now_us) override;
  void OnApplyStarted(SemiPrimaryCore* core) override;
  void StopAccepting() override { sessions_.Stop(); }
  void Stop(SemiPrimaryCore* core) override;

 private:
  void Carry(SemiPrimaryCore* core, std::int64_t now_us);

  const SemiPrimarySettings settings_;
  zmq::context_t& context_;
  std::optional<RouterSocket> clients_;  // from Start on
  Sessions sessions_;
  Mailbox<JobResult> results_;
  // Their threads push into results_: last to be made, first to end.
  LocalWorkers workers_;
  GarbageCollector gc_;
};

}  // namespace psp
