// Native mode's front: requests of the commit hook become submissions.
#pragma once

#include <variant>
#include <vector>

#include "common/queue.h"
#include "semi_primary/front/commits_in_flight.h"
#include "semi_primary/front/front.h"
#include "semi_primary/hook_server/hook_server.h"
#include "semi_primary/hook_server/question_allowance.h"

namespace psp::sp {

class HookFront : public Front {
 public:
  // `in_flight` must outlive this.
  HookFront(const HookServer::Options& options, CommitsInFlight* in_flight);

  Result<Done, std::string> Start() override { return hook_.Start(); }
  std::array<int, 2> fds() override { return {events_.fd(), -1}; }
  bool HasInput() override { return false; }
  void TakeInput(std::int64_t now_us) override;
  std::vector<FrontRequest> TakeRequests() override { return std::exchange(requests_, {}); }
  void Answer(CommitReply reply, std::int64_t now_us) override;
  void OnApplyStarted() override {}
  void SetPrimaryRemembers(std::int64_t /*ms*/) override {}
  void StopAccepting() override { hook_.StopAccepting(); }
  void Stop() override { hook_.Stop(); }

 private:
  struct BackendGone {
    HookConnectionId connection = 0;
  };
  struct FromBackend {
    HookConnectionId connection = 0;
    HookRequest request;
  };
  using Event = std::variant<FromBackend, BackendGone>;

  void OnBackend(FromBackend event, std::int64_t now_us);

  CommitsInFlight* const in_flight_;
  QuestionAllowance questions_;
  std::vector<FrontRequest> requests_;
  Mailbox<Event> events_;
  HookServer hook_;  // its thread pushes into events_: last to be made, first to end
};

}  // namespace psp::sp
