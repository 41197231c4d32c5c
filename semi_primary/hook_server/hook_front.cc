#include "semi_primary/hook_server/hook_front.h"

#include <memory>
#include <variant>

namespace psp::sp {
namespace {

UserError TooManyQuestions() {
  return {"53400", "psp: too many outcomes were asked for at this semi-primary",
          "The primary remembers each id that it is asked about. Each role has a share, and all have one "
          "together.",
          "Ask again a second later."};
}

KeyUsesPtr UsesOf(AssembledWriteSet* assembled) {
  if (assembled->uses.keys().empty()) return nullptr;
  return std::make_shared<const proto::KeyUses>(std::move(assembled->uses));
}

}  // namespace

void HookFront::TakeInput(std::int64_t now_us) {
  for (HookServer::Event& event : hook_.Serve(now_us)) {
    if (event.request) {
      OnRequest(event.connection, std::move(*event.request), now_us);
    } else {
      OnGone(event.connection);
    }
  }
}

void HookFront::OnGone(HookConnectionId connection) {
  in_flight_->End(connection);
  requests_.emplace_back(AskerLeft{connection});
}

void HookFront::OnRequest(HookConnectionId connection, HookRequest request, std::int64_t now_us) {
  if (const auto* outcome = std::get_if<HookOutcomeRequest>(&request)) {
    if (!questions_.Allow(outcome->role, now_us)) return hook_.Reply(connection, TooManyQuestions());
    requests_.emplace_back(OutcomeQuestion{connection, outcome->tx_id});
    return;
  }
  if (auto* hold = std::get_if<HookHoldRequest>(&request)) {
    requests_.emplace_back(
        HoldRequest{connection, hold->transaction, std::move(hold->table_ids), hold->timeout_ms});
    return;
  }
  if (const auto* reach = std::get_if<HookReachRequest>(&request)) {
    requests_.emplace_back(ReachQuestion{connection, reach->global_t});
    return;
  }
  if (auto* lost = std::get_if<HookLostRequest>(&request)) {
    requests_.emplace_back(std::move(lost->losers));
    return hook_.Reply(connection, Noted{});
  }
  auto& commit = std::get<CommitRequest>(request);
  in_flight_->Begin(connection, commit.tx_id);
  requests_.emplace_back(
      Submission{connection,
                 commit.tx_id,
                 {commit.watermark, std::move(commit.seen)},
                 std::make_shared<const proto::WriteSet>(std::move(commit.assembled.write_set)),
                 commit.write_set_bytes,
                 UsesOf(&commit.assembled),
                 now_us});
}

void HookFront::Answer(CommitReply reply, std::int64_t /*now_us*/) {
  in_flight_->End(reply.ticket);
  hook_.Reply(reply.ticket, reply.answer);
}

}  // namespace psp::sp
