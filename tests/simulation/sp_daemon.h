// An SP's daemon: the real core, joined as in semi_primary/server.cc to a connection that comes back by
// itself, to the apply worker and to the backends. Destroying it is a crash.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "semi_primary/core/core.h"
#include "tests/simulation/applier.h"
#include "tests/simulation/network.h"

namespace psp::simulation {

class SpDaemon {
 public:
  struct Hooks {
    std::function<void(const sp::CommitReply&)> reply;
    std::function<void(SpDatabase::LockOwner)> end_blocker;
    std::function<void(const std::string&)> refused;  // for good; called once, soon after
    std::function<void(std::size_t address)> stale;   // a primary was taken for an older one; soon after
    std::function<void(std::size_t address, bool is_saved)> followed;
  };

  SpDaemon(Simulator* sim, const Scenario& scenario, SpId sp_id, SpDatabase* database, Network* network,
           Hooks hooks);
  ~SpDaemon();

  // From backends.
  void Submit(const sp::Submission& submission);
  void AskOutcome(sp::Ticket ticket, const TxId& tx_id);
  void Hold(const sp::HoldRequest& request);
  void BackendGone(sp::Ticket ticket);

  // How often the primary has answered Hello, or has not known this SP: what it held for this SP may have ended then.
  std::uint64_t welcomes() const { return welcomes_; }

  void OnPostgresCrash() {
    sure_from_generation_ = last_generation_ + 1;
    applier_.OnPostgresCrash();
  }
  void OnPostgresBack() { applier_.OnPostgresBack(); }
  void SetStalled(bool stalled) { applier_.SetStalled(stalled); }

  // Nothing waits, and everything up to `closed_t` is applied.
  bool Drained(GlobalT closed_t) const;
  std::string StateText() const;
  // It takes itself for connected to the primary there, and is.
  bool Follows(std::size_t address) const {
    return core_.connected() && used_ == address && network_.IsOpen(links_.at(address));
  }

 private:
  void TakeAway(proto::ToSemiPrimary message);
  void CheckReply(const sp::CommitReply& reply);
  void NoteTold(const proto::ToSemiPrimary& message);
  void OnMessage(Network::Link link, const std::string& bytes);
  void Tick();
  void SaveEpochs();
  void NoteStatus();
  void CarryOutActions();

  Simulator& sim_;
  const Scenario& scenario_;
  const SpId sp_id_;
  SpDatabase& database_;
  Network& network_;
  const Hooks hooks_;
  std::uint64_t last_generation_ = 0;
  std::uint64_t sure_from_generation_ = 0;
  sp::Core core_;
  Applier applier_;
  Network::Link& link() { return links_.at(used_); }

  std::vector<Network::Link> links_;  // by address
  std::size_t used_ = 0;
  std::uint64_t welcomes_ = 0;
  std::int64_t away_until_us_ = 0;
  bool is_refused_ = false;
  std::optional<EpochStarts> unsaved_;
  const std::shared_ptr<const int> alive_ = std::make_shared<int>(0);
};

}  // namespace psp::simulation
