// Native mode's front: requests of the commit hook become submissions.
#pragma once

#include <array>
#include <utility>
#include <vector>

#include "semi_primary/front/commits_in_flight.h"
#include "semi_primary/front/front.h"
#include "semi_primary/hook_server/hook_server.h"
#include "semi_primary/hook_server/question_allowance.h"

namespace psp::sp {

class HookFront : public Front {
 public:
  // `in_flight` must outlive this.
  HookFront(HookServer::Options options, CommitsInFlight* in_flight)
      : in_flight_(in_flight), hook_(std::move(options)) {}

  Result<Done, std::string> Start() override { return hook_.Start(); }
  std::array<int, 2> fds() override { return {hook_.fd(), -1}; }
  bool HasInput() override { return hook_.HasEvents(); }
  void TakeInput(std::int64_t now_us) override;
  std::vector<FrontRequest> TakeRequests() override { return std::exchange(requests_, {}); }
  void Answer(CommitReply reply, std::int64_t now_us) override;
  void OnApplyStarted() override {}
  void StopAccepting() override { hook_.StopAccepting(); }
  void Stop() override { hook_.Stop(); }

 private:
  void OnRequest(HookConnectionId connection, HookRequest request, std::int64_t now_us);
  void OnGone(HookConnectionId connection);

  CommitsInFlight* const in_flight_;
  QuestionAllowance questions_;
  std::vector<FrontRequest> requests_;
  HookServer hook_;
};

}  // namespace psp::sp
