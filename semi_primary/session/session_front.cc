#include "semi_primary/session_front.h"

#include <chrono>
#include <utility>

#include "common/clock.h"

namespace psp {
namespace {

constexpr std::size_t kMailboxItems = 1 << 16;
constexpr std::int64_t kRequestBytesMax = 1024;
constexpr int kRepliesQueuedMax = 100'000;  // for a client that does not read
constexpr int kRequestsQueuedMax = 10'000;  // of a client that sends faster than they are taken
constexpr int kRequestsAtOnceMax = 1000;    // then the primary's messages have their turn
constexpr std::int64_t kStopPatienceUs = 3'000'000;
constexpr std::int64_t kLingerMs = 500;

std::int64_t WallClockMs() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

Sessions::Options ToOptions(const SemiPrimarySettings& settings, SpId sp_id) {
  return {.sp_id = sp_id,
          .wait_for_apply = settings.wait_for_apply,
          .write_set_bytes_max = static_cast<std::size_t>(settings.write_set_bytes_max),
          .commit_timeout_us = settings.commit_timeout_ms * 1000,
          .wall_clock_ms = WallClockMs};
}

}  // namespace

SessionFront::SessionFront(const SemiPrimarySettings& settings, const Identity& identity,
                           zmq::context_t* context)
    : settings_(settings),
      context_(*context),
      sessions_(ToOptions(settings, identity.sp_id)),
      results_(kMailboxItems),
      workers_(settings.database, identity.database, static_cast<std::size_t>(settings.lworkers),
               [this](JobResult result) { results_.Push(std::move(result)); }),
      gc_({.conninfo = settings.database,
           .database = identity.database,
           .interval_ms = settings.gc_interval_ms,
           .running_timeout_ms = settings.running_timeout_ms,
           .forget_after_ms = settings.forget_after_ms}) {}

Result<Done, std::string> SessionFront::Start() {
  SocketOptions options;
  options.message_bytes_max = kRequestBytesMax;
  options.send_queue_max = kRepliesQueuedMax;
  options.receive_queue_max = kRequestsQueuedMax;
  options.req_peers = true;
  try {
    clients_.emplace(context_, settings_.client_listen, options);
  } catch (const zmq::error_t& problem) {
    return settings_.client_listen + ": " + problem.what();
  }
  clients_->LingerOnClose(kLingerMs);
  workers_.Start();
  gc_.Start();
  return Done{};
}

void SessionFront::Take(SemiPrimaryCore* core, std::int64_t now_us) {
  ClientRoute route;
  proto::ClientRequest request;
  for (int i = 0; i < kRequestsAtOnceMax && clients_->Receive(&route, &request); ++i) {
    sessions_.OnRequest(route, request, now_us);
  }
  sessions_.SetPrimaryRemembers(core->primary_remembers_ms());
  for (JobResult& result : results_.TakeAll()) sessions_.OnJobResult(std::move(result), now_us);
  sessions_.OnTime(now_us);
  Carry(core, now_us);
}

void SessionFront::Answer(Submissions::Reply reply, SemiPrimaryCore* core, std::int64_t now_us) {
  if (const auto* committed = std::get_if<Submissions::Committed>(&reply.answer)) {
    sessions_.OnCommitted(reply.ticket, committed->global_t);
  } else if (const auto* outcome = std::get_if<Submissions::Outcome>(&reply.answer)) {
    sessions_.OnOutcome(reply.ticket, outcome->global_t, outcome->lost);
  } else {
    sessions_.OnError(reply.ticket, std::get<UserError>(reply.answer), now_us);
  }
  Carry(core, now_us);
}

void SessionFront::OnApplyStarted(SemiPrimaryCore* core) {
  sessions_.OnApplyStarted();
  Carry(core, MonotonicUs());
}

void SessionFront::Carry(SemiPrimaryCore* core, std::int64_t now_us) {
  Sessions::Actions actions = sessions_.TakeActions();
  for (const Sessions::Reply& reply : actions.replies) clients_->Send(reply.route, reply.message);
  for (Job& job : actions.jobs) workers_.Push(std::move(job));
  for (Sessions::ToSubmit& one : actions.submissions) {
    core->Submit(
        {one.ticket, one.tx_id, {one.watermark, std::move(one.seen)}, std::move(one.write_set), one.bytes},
        now_us);
  }
  for (const Sessions::Question& question : actions.questions) {
    core->AskOutcome(question.ticket, question.tx_id, now_us);
  }
}

// What is decided is applied (or written down as aborted) and answered, if the database lets it.
void SessionFront::Stop(SemiPrimaryCore* core) {
  gc_.Stop();
  const std::int64_t until_us = MonotonicUs() + kStopPatienceUs;
  while (sessions_.jobs() > 0 && MonotonicUs() < until_us) {
    WaitOrStop({}, 5);
    Take(core, MonotonicUs());
  }
  results_.Close();  // a worker that finds it full would wait for this thread
  workers_.Stop();
  Take(core, MonotonicUs());
  clients_.reset();
}

}  // namespace psp
