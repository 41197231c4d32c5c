// Views mode's front: the sessions and their local workers turn clients' commit requests into submissions.
#pragma once

#include <optional>
#include <string>
#include <vector>
#include <zmq.hpp>

#include "common/queue.h"
#include "common/sockets.h"
#include "semi_primary/front/front.h"
#include "semi_primary/session/garbage_collector.h"
#include "semi_primary/session/local_workers.h"
#include "semi_primary/session/sessions.h"

namespace psp::sp {

class SessionFront : public Front {
 public:
  struct Options {
    std::string conninfo;
    std::string database;  // psp.this_database() of the one to serve
    std::string listen;    // a ZeroMQ endpoint
    std::size_t local_workers = 4;
    Sessions::Options sessions;
    GarbageCollector::Options gc;
  };

  SessionFront(const Options& options, zmq::context_t* context);

  Result<Done, std::string> Start() override;
  std::array<int, 2> fds() override { return {clients_->fd(), results_.fd()}; }
  bool HasInput() override { return clients_->HasInput(); }
  void TakeInput(std::int64_t now_us) override;
  std::vector<FrontRequest> TakeRequests() override { return std::exchange(requests_, {}); }
  void Answer(CommitReply reply, std::int64_t now_us) override;
  void OnApplyStarted() override;
  void StopAccepting() override { sessions_.Stop(); }
  // New requests are dropped meanwhile: the next daemon finds their transactions waiting.
  void Stop() override;

 private:
  void CarryOutActions();

  const std::string listen_;
  zmq::context_t& context_;
  std::optional<RouterSocket> clients_;  // from Start on
  Sessions sessions_;
  std::vector<FrontRequest> requests_;
  Mailbox<JobResult> results_;
  // Their threads push into results_: last to be made, first to end.
  LocalWorkers workers_;
  GarbageCollector gc_;
};

}  // namespace psp::sp
