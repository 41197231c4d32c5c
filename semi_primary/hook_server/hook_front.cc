#include "semi_primary/hook_server/hook_front.h"

#include <utility>

namespace psp::sp {
namespace {

constexpr std::size_t kMailboxItems = 1 << 16;

UserError TooManyQuestions() {
  return {"53400", "psp: too many outcomes were asked for at this semi-primary",
          "The primary remembers each id that it is asked about.", "Ask again a second later."};
}

KeyUsesPtr UsesOf(AssembledWriteSet* assembled) {
  if (assembled->uses.keys().empty()) return nullptr;
  return std::make_shared<const proto::KeyUses>(std::move(assembled->uses));
}

}  // namespace

HookFront::HookFront(const HookServer::Options& options, CommitsInFlight* in_flight)
    : in_flight_(in_flight),
      events_(kMailboxItems),
      hook_(options, {.on_request =
                          [this](HookConnectionId connection, HookRequest request) {
                            if (const auto* commit = std::get_if<CommitRequest>(&request)) {
                              in_flight_->Begin(connection, commit->tx_id);
                            }
                            events_.Push(FromBackend{connection, std::move(request)});
                          },
                      .on_gone =
                          [this](HookConnectionId connection) {
                            in_flight_->End(connection);
                            events_.Push(BackendGone{connection});
                          }}) {}

void HookFront::TakeInput(std::int64_t now_us) {
  for (Event& event : events_.TakeAll()) {
    if (auto* request = std::get_if<FromBackend>(&event)) {
      OnBackend(std::move(*request), now_us);
    } else {
      requests_.emplace_back(AskerLeft{std::get<BackendGone>(event).connection});
    }
  }
}

void HookFront::OnBackend(FromBackend event, std::int64_t now_us) {
  if (const auto* outcome = std::get_if<HookOutcomeRequest>(&event.request)) {
    if (!questions_.Allow(now_us)) return hook_.Reply(event.connection, TooManyQuestions());
    requests_.emplace_back(OutcomeQuestion{event.connection, outcome->tx_id});
    return;
  }
  if (auto* hold = std::get_if<HookHoldRequest>(&event.request)) {
    requests_.emplace_back(
        HoldRequest{event.connection, hold->transaction, std::move(hold->table_ids), hold->timeout_ms});
    return;
  }
  auto& commit = std::get<CommitRequest>(event.request);
  requests_.emplace_back(
      Submission{event.connection,
                 commit.tx_id,
                 {commit.watermark, std::move(commit.seen)},
                 std::make_shared<const proto::WriteSet>(std::move(commit.assembled.write_set)),
                 commit.write_set_bytes,
                 UsesOf(&commit.assembled)});
}

void HookFront::Answer(CommitReply reply, std::int64_t /*now_us*/) {
  in_flight_->End(reply.ticket);
  hook_.Reply(reply.ticket, std::move(reply.answer));
}

}  // namespace psp::sp
