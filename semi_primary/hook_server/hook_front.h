// Native mode's front: requests of the commit hook become submissions.
#pragma once

#include <variant>

#include "common/queue.h"
#include "semi_primary/commit_hook/hook_server.h"
#include "semi_primary/front.h"
#include "semi_primary/question_allowance.h"
#include "semi_primary/settings.h"
#include "semi_primary/status_writer.h"

namespace psp {

class HookFront : public Front {
 public:
  HookFront(const SemiPrimarySettings& settings, const ListenAddress& address, const Identity& identity);

  Result<Done, std::string> Start() override { return hook_.Start(); }
  std::array<int, 2> fds() override { return {events_.fd(), -1}; }
  bool HasInput() override { return false; }
  void Take(SemiPrimaryCore* core, std::int64_t now_us) override;
  void Answer(Submissions::Reply reply, SemiPrimaryCore* core, std::int64_t now_us) override;
  void OnApplyStarted(SemiPrimaryCore* /*core*/) override {}
  void StopAccepting() override { hook_.StopAccepting(); }
  void Stop(SemiPrimaryCore* /*core*/) override { hook_.Stop(); }

 private:
  struct BackendGone {
    HookConnectionId connection = 0;
  };
  struct FromBackend {
    HookConnectionId connection = 0;
    HookRequest request;
  };
  using Event = std::variant<FromBackend, BackendGone>;

  void OnBackend(FromBackend event, SemiPrimaryCore* core, std::int64_t now_us);

  QuestionAllowance questions_;
  Mailbox<Event> events_;
  HookServer hook_;  // its thread pushes into events_: last to be made, first to end
};

}  // namespace psp
