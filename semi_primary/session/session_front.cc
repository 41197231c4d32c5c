#include "semi_primary/session/session_front.h"

#include <utility>

#include "common/clock.h"

namespace psp::sp {
namespace {

constexpr std::size_t kMailboxItems = 1 << 16;
constexpr std::int64_t kRequestBytesMax = 1024;
constexpr int kRepliesQueuedMax = 100'000;  // for a client that does not read
constexpr int kRequestsQueuedMax = 10'000;  // of a client that sends faster than they are taken
constexpr int kRequestsAtOnceMax = 1000;    // then the primary's messages have their turn
constexpr std::int64_t kStopPatienceUs = 3'000'000;
constexpr std::int64_t kLingerMs = 500;

}  // namespace

SessionFront::SessionFront(const Options& options, zmq::context_t* context)
    : listen_(options.listen),
      context_(*context),
      sessions_(options.sessions),
      results_(kMailboxItems),
      workers_(options.conninfo, options.database, options.local_workers,
               [this](JobResult result) { results_.Push(std::move(result)); }),
      gc_(options.gc) {}

Result<Done, std::string> SessionFront::Start() {
  SocketOptions options;
  options.message_bytes_max = kRequestBytesMax;
  options.send_queue_max = kRepliesQueuedMax;
  options.receive_queue_max = kRequestsQueuedMax;
  options.req_peers = true;
  try {
    clients_.emplace(context_, listen_, options);
  } catch (const zmq::error_t& problem) {
    return listen_ + ": " + problem.what();
  }
  clients_->LingerOnClose(kLingerMs);
  workers_.Start();
  gc_.Start();
  return Done{};
}

void SessionFront::TakeInput(std::int64_t now_us) {
  ClientRoute route;
  proto::ClientRequest request;
  for (int i = 0; i < kRequestsAtOnceMax && clients_->Receive(&route, &request); ++i) {
    sessions_.OnRequest(route, request, now_us);
  }
  for (JobResult& result : results_.TakeAll()) sessions_.OnJobResult(std::move(result), now_us);
  sessions_.OnTime(now_us);
  CarryOutActions();
}

void SessionFront::Answer(CommitReply reply, std::int64_t now_us) {
  if (const auto* committed = std::get_if<Committed>(&reply.answer)) {
    sessions_.OnCommitted(reply.ticket, committed->global_t);
  } else if (const auto* outcome = std::get_if<Outcome>(&reply.answer)) {
    sessions_.OnOutcome(reply.ticket, *outcome);
  } else {
    sessions_.OnError(reply.ticket, std::get<UserError>(reply.answer), now_us);
  }
  CarryOutActions();
}

void SessionFront::OnApplyStarted() {
  sessions_.OnApplyStarted();
  CarryOutActions();
}

void SessionFront::CarryOutActions() {
  Sessions::Actions actions = sessions_.TakeActions();
  for (const Sessions::Reply& reply : actions.replies) clients_->Send(reply.route, reply.message);
  for (Job& job : actions.jobs) workers_.Push(std::move(job));
  for (Submission& submission : actions.submissions) requests_.emplace_back(std::move(submission));
  for (const OutcomeQuestion& question : actions.questions) requests_.emplace_back(question);
}

// Decided transactions are applied (or recorded as aborted) and answered, if the database is there.
void SessionFront::Stop() {
  gc_.Stop();
  const std::int64_t until_us = MonotonicUs() + kStopPatienceUs;
  while (sessions_.jobs() > 0 && MonotonicUs() < until_us) {
    WaitOrStop({}, 5);
    TakeInput(MonotonicUs());
  }
  results_.Close();  // a worker that finds the mailbox full would wait for this thread
  workers_.Stop();
  TakeInput(MonotonicUs());
  clients_.reset();
}

}  // namespace psp::sp
