#include "tests/simulation/sp_node.h"

#include <algorithm>

namespace psp::simulation {

SpNode::SpNode(Simulator* sim, const Scenario& scenario, SpId sp_id, Network* network, SpState initial)
    : sim_(*sim),
      scenario_(scenario),
      sp_id_(sp_id),
      network_(*network),
      database_(sim, std::move(initial)) {}

void SpNode::ToDaemon(std::function<void(SpDaemon&)> request) {
  requests_free_us_ = std::max(requests_free_us_, sim_.now_us() + sim_.Between(20, 1'000));
  sim_.At(requests_free_us_, daemon_, [this, request = std::move(request)] { request(*daemon_); });
}

sp::Ticket SpNode::Commit(sp::Submission submission, Answer answer) {
  if (!daemon_) return 0;
  submission.ticket = ++last_ticket_;
  answers_[submission.ticket] = std::move(answer);
  ToDaemon([submission](SpDaemon& daemon) { daemon.Submit(submission); });
  return last_ticket_;
}

sp::Ticket SpNode::AskOutcome(const TxId& tx_id, Answer answer) {
  if (!daemon_) return 0;
  const sp::Ticket ticket = ++last_ticket_;
  answers_[ticket] = std::move(answer);
  ToDaemon([ticket, tx_id](SpDaemon& daemon) { daemon.AskOutcome(ticket, tx_id); });
  return ticket;
}

sp::Ticket SpNode::Hold(sp::HoldRequest request, Answer answer) {
  if (!daemon_) return 0;
  request.ticket = ++last_ticket_;
  answers_[request.ticket] = std::move(answer);
  ToDaemon([request](SpDaemon& daemon) { daemon.Hold(request); });
  return last_ticket_;
}

void SpNode::Leave(sp::Ticket ticket) {
  if (answers_.erase(ticket) == 0 || !daemon_) return;
  ToDaemon([ticket](SpDaemon& daemon) { daemon.BackendGone(ticket); });
}

void SpNode::OnReply(const sp::CommitReply& reply) { AnswerLater(reply.ticket, reply.answer); }

void SpNode::AnswerLater(sp::Ticket ticket, Done answer) {
  sim_.After(sim_.Between(20, 1'000), [this, ticket, answer = std::move(answer)] {
    auto waiting = answers_.extract(ticket);
    if (!waiting.empty()) waiting.mapped()(answer);
  });
}

void SpNode::CrashDaemon() {
  if (!daemon_) return;
  sim_.Trace("SP ", sp_id_, ": daemon crashes");
  daemon_.reset();
  // Replies that are on their way may still arrive before the broken connections are noticed.
  for (const auto& [ticket, answer] : answers_)
    AnswerLater(ticket, UserError{"08007", "daemon lost", "", ""});
}

void SpNode::StartDaemon() {
  if (daemon_) return;
  if (!database_.up()) {
    sim_.After(20'000, [this] { StartDaemon(); });
    return;
  }
  daemon_ = std::make_shared<SpDaemon>(
      &sim_, scenario_, sp_id_, &database_, &network_,
      SpDaemon::Hooks{[this](const sp::CommitReply& reply) { OnReply(reply); },
                      [this](SpDatabase::LockOwner owner) { end_blocker(owner); },
                      [this](const std::string& why) { on_refused(why); },
                      [this](std::size_t address) { on_stale(address); },
                      [this](std::size_t address, bool is_saved) { on_followed(address, is_saved); }});
}

void SpNode::AcceptLoss() {
  if (!database_.up()) return sim_.After(20'000, [this] { AcceptLoss(); });
  SpState next = *database_.state();
  next.follows_any = true;
  database_.Commit(std::move(next));
  database_.Flush();
}

void SpNode::CrashPostgres() {
  if (!database_.up()) return;
  const GlobalT before = database_.state()->watermark;
  database_.Crash();
  sim_.Trace("SP ", sp_id_, ": PostgreSQL crashes and falls back from ", before, " to ",
             database_.state()->watermark);
  if (daemon_) daemon_->OnPostgresCrash();
}

void SpNode::StartPostgres() {
  if (database_.up()) return;
  database_.Start();
  sim_.Trace("SP ", sp_id_, ": PostgreSQL is back");
  if (daemon_) daemon_->OnPostgresBack();
}

}  // namespace psp::simulation
