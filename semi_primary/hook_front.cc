#include "semi_primary/hook_front.h"

#include <utility>

namespace psp {
namespace {

constexpr std::size_t kMailboxItems = 1 << 16;

UserError TooManyQuestions() {
  return {"53400", "psp: too many outcomes were asked for at this semi-primary",
          "The primary remembers each id that it is asked about.", "Ask again a second later."};
}

}  // namespace

HookFront::HookFront(const SemiPrimarySettings& settings, const ListenAddress& address,
                     const Identity& identity)
    : events_(kMailboxItems),
      hook_({.address = address,
             .token = identity.token,
             .database = identity.database,
             .write_set_bytes_max = static_cast<std::size_t>(settings.write_set_bytes_max),
             .connections_max = static_cast<std::size_t>(settings.hook_connections_max)},
            {.on_request =
                 [this](HookConnectionId connection, HookRequest request) {
                   events_.Push(FromBackend{connection, std::move(request)});
                 },
             .on_gone = [this](HookConnectionId connection) { events_.Push(BackendGone{connection}); }}) {}

void HookFront::Take(SemiPrimaryCore* core, std::int64_t now_us) {
  for (Event& event : events_.TakeAll()) {
    if (auto* request = std::get_if<FromBackend>(&event)) {
      OnBackend(std::move(*request), core, now_us);
    } else {
      core->BackendGone(std::get<BackendGone>(event).connection);
    }
  }
}

void HookFront::OnBackend(FromBackend event, SemiPrimaryCore* core, std::int64_t now_us) {
  if (const auto* outcome = std::get_if<OutcomeRequest>(&event.request)) {
    if (!questions_.Take(now_us)) return hook_.Reply(event.connection, TooManyQuestions());
    return core->AskOutcome(event.connection, outcome->tx_id, now_us);
  }
  auto& commit = std::get<CommitRequest>(event.request);
  core->Submit({event.connection,
                commit.tx_id,
                {commit.watermark, std::move(commit.seen)},
                std::make_shared<const proto::WriteSet>(std::move(commit.assembled.write_set)),
                commit.write_set_bytes},
               now_us);
}

void HookFront::Answer(Submissions::Reply reply, SemiPrimaryCore* /*core*/, std::int64_t /*now_us*/) {
  if (const auto* committed = std::get_if<Submissions::Committed>(&reply.answer)) {
    hook_.Reply(reply.ticket, CommittedReply{committed->global_t});
  } else if (const auto* outcome = std::get_if<Submissions::Outcome>(&reply.answer)) {
    hook_.Reply(reply.ticket, OutcomeReply{outcome->committed});
  } else {
    hook_.Reply(reply.ticket, std::get<UserError>(std::move(reply.answer)));
  }
}

}  // namespace psp
