// One SP: its PostgreSQL, its daemon while it lives, and the hook connections between the two.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "tests/simulation/sp_daemon.h"

namespace psp::simulation {

class SpNode {
 public:
  using Done = sp::FrontAnswer;
  using Answer = std::function<void(const Done&)>;

  SpNode(Simulator* sim, const Scenario& scenario, SpId sp_id, Network* network, SpState initial);

  SpId sp_id() const { return sp_id_; }
  SpDatabase& database() { return database_; }
  SpDaemon* daemon() { return daemon_.get(); }

  // What a backend's hook does. The answer comes once, unless the backend leaves; 0: no daemon is there.
  sp::Ticket Commit(sp::Submission submission, Answer answer);
  sp::Ticket AskOutcome(const TxId& tx_id, Answer answer);
  sp::Ticket Hold(sp::HoldRequest request, Answer answer);
  void Leave(sp::Ticket ticket);

  // Set by the world: ends the transaction of a lock's owner, if it is still running.
  std::function<void(SpDatabase::LockOwner)> end_blocker;
  // Set by the world: the daemon was refused for good, for that reason, and ends.
  std::function<void(const std::string&)> on_refused;

  // Set by the world: a primary was taken for an older one; a primary is followed, and then that is on the disk. With the primary's address.
  std::function<void(std::size_t)> on_stale;
  std::function<void(std::size_t, bool is_saved)> on_followed;

  // Own commits that clients were told of, in that order.
  std::vector<std::pair<TxId, GlobalT>> reported;
  std::int64_t last_xid = 0;

  void CrashDaemon();
  void StartDaemon();  // as soon as PostgreSQL is up
  void AcceptLoss();   // psp schema accept-loss
  void CrashPostgres();
  void StartPostgres();

 private:
  void ToDaemon(std::function<void(SpDaemon&)> request);
  void OnReply(const sp::CommitReply& reply);
  void AnswerLater(sp::Ticket ticket, Done answer);

  Simulator& sim_;
  const Scenario& scenario_;
  const SpId sp_id_;
  Network& network_;
  SpDatabase database_;
  std::shared_ptr<SpDaemon> daemon_;
  std::int64_t requests_free_us_ = 0;  // requests keep their order
  sp::Ticket last_ticket_ = 0;
  std::map<sp::Ticket, Answer> answers_;
};

}  // namespace psp::simulation
