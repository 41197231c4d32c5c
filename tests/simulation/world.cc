#include "tests/simulation/world.h"

#include <algorithm>
#include <exception>
#include <map>
#include <memory>
#include <set>

#include "tests/simulation/checks.h"
#include "tests/simulation/client.h"
#include "tests/simulation/primary_daemon.h"
#include "tests/simulation/rows.h"
#include "tests/simulation/standby.h"

namespace psp::simulation {
namespace {

constexpr std::int64_t kCalmUs = 120'000'000;  // virtual time after which something hangs

bool Has(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

// What a start of the primary's daemon draws.
std::string DrawHistory(Simulator* sim) {
  const std::uint64_t number = sim->Number();
  return std::string(reinterpret_cast<const char*>(&number), sizeof number);
}

// A server of the primary's: PostgreSQL, and the daemon beside it.
struct PrimaryServer {
  PrimaryServer(PrimaryDatabase its_database, std::size_t its_address, int its_term)
      : database(std::move(its_database)), address(its_address), term(its_term) {}

  PrimaryDatabase database;
  const std::size_t address;         // where its daemon listens
  const int term;                    // how many were promoted before it
  std::unique_ptr<Standby> standby;  // if there is one
  std::shared_ptr<const int> start;  // while the daemon starts
  std::unique_ptr<PrimaryDaemon> daemon;
};

class World {
 public:
  World(const Scenario& scenario, bool tracing)
      : scenario_(scenario),
        sim_(scenario.seed, tracing),
        network_(&sim_, scenario_),
        leader_(std::make_unique<PrimaryServer>(PrimaryDatabase(scenario_, history_), 0, 0)) {
    SpState initial;
    for (const auto& [key, row] : leader_->database.data()) initial.Put(key, row.image);
    for (SpId sp_id = 1; sp_id <= scenario_.sps; ++sp_id) AddSp(sp_id, initial);
    for (std::size_t i = 0; i < scenario_.joins_us.size(); ++i) {
      sim_.At(scenario_.joins_us[i], [this, i] { Join(scenario_.sps + 1 + static_cast<SpId>(i)); });
    }
    next_sp_id_ = scenario_.sps + static_cast<SpId>(scenario_.joins_us.size()) + 1;
    for (const std::int64_t at_us : scenario_.backups_us) {
      sim_.At(at_us, [this] { backups_.push_back(leader_->database); });
    }
    for (const std::int64_t at_us : scenario_.gap_backups_us) {
      sim_.At(at_us, [this] { BackUpAtGap(); });
    }
    if (scenario_.has_standby) leader_->standby = std::make_unique<Standby>(&sim_, &leader_->database);
    StartPrimary();
    for (const Fault& fault : scenario_.faults) {
      sim_.At(fault.at_us, [this, fault] { Begin(fault); });
    }
  }

  // An exception is a violation, too: somebody has met rows that nobody can read.
  RunResult Run() {
    try {
      RunToTheEnd();
    } catch (const std::exception& problem) {
      sim_.Violation(problem.what());
    }
    return Result();
  }

 private:
  void RunToTheEnd() {
    sim_.RunUntil(scenario_.run_us);
    is_calm_ = true;
    for (const auto& client : clients_) client->Stop();
    while (sim_.violations().empty() && !Drained()) {
      if (sim_.now_us() > scenario_.run_us + kCalmUs) {
        sim_.Violation("something hangs: ", WhatHangs());
        break;
      }
      sim_.RunUntil(sim_.now_us() + 100'000);
    }
    if (sim_.violations().empty()) Check();
  }

  void AddSp(SpId sp_id, const SpState& initial) {
    SpNode* node =
        (nodes_[sp_id] = std::make_unique<SpNode>(&sim_, scenario_, sp_id, &network_, initial)).get();
    const std::size_t first = clients_.size();
    for (int i = 0; i < scenario_.clients_per_sp && !is_calm_; ++i) {
      clients_.push_back(std::make_unique<Client>(&sim_, scenario_, node, &history_, clients_.size() + 1));
      clients_.back()->Start();
    }
    clients_of_[sp_id] = {first, clients_.size()};
    node->end_blocker = [this](SpDatabase::LockOwner owner) {
      if (owner != 0 && owner <= clients_.size()) clients_[owner - 1]->EndIfRunning();
    };
    node->on_stale = [this, sp_id](std::size_t address) { OnStale(sp_id, address); };
    node->on_followed = [this, sp_id](std::size_t address, bool is_saved) {
      OnFollowed(sp_id, address, is_saved);
    };
    node->on_refused = [this, sp_id](const std::string& why) {
      sim_.After(0, [this, sp_id, why] { EndRefused(sp_id, why); });
    };
    node->StartDaemon();
  }

  // An SP takes the primary at this address for an older one, or for a fork. After a restore the operator says that it may follow it.
  void OnStale(SpId sp_id, std::size_t address) {
    if (address != leader_->address || !nodes_.contains(sp_id)) return;
    if (!has_restored_) return sim_.Violation("SP ", sp_id, " does not follow the newest primary");
    if (leader_->daemon && !leader_->daemon->hearing().is_over()) return;  // WatchHearing
    AcceptLoss(sp_id);
  }

  void AcceptLoss(SpId sp_id) {
    SpNode& node = *nodes_.at(sp_id);
    node.CrashDaemon();
    node.AcceptLoss();
    node.StartDaemon();
  }

  // While the primary does not decide since SPs have what it lacks: sooner or later the operator gives that up.
  void WatchHearing() {
    if (!leader_->daemon || leader_->daemon->hearing().is_over()) return;
    for (const auto& [sp_id, node] : nodes_) {
      const auto ahead = leader_->daemon->hearing().ahead();
      if (!Has(ahead, NameOf(sp_id)) || !accepts_.insert(sp_id).second) continue;
      if (!has_restored_) sim_.Violation("the primary takes SP ", sp_id, " to have what it has not");
      sim_.After(sim_.Between(1'000, 1'500'000), [this, id = sp_id] {
        accepts_.erase(id);
        if (nodes_.contains(id) && IsAhead(id)) AcceptLoss(id);
      });
    }
    sim_.After(20'000, [this] { WatchHearing(); });
  }

  bool IsAhead(SpId sp_id) const {
    return leader_->daemon && Has(leader_->daemon->hearing().ahead(), NameOf(sp_id));
  }

  static std::string NameOf(SpId sp_id) { return "sp" + std::to_string(sp_id); }

  // The primary begins to decide. Nobody who was heard may have what a restore took and nobody has given up.
  void OnReady(const std::vector<std::string>& unheard) {
    if (!has_restored_ || leader_->database.closed_t() > restored_t_) return;
    for (const primary::RegistryRow& row : leader_->database.Registry()) {
      if (row.acked_t < 0 || !nodes_.contains(row.sp_id)) continue;
      SpNode& node = *nodes_.at(row.sp_id);
      if (node.database().state()->follows_any || Has(unheard, NameOf(row.sp_id))) continue;
      if (HasOpenLoss(node)) {
        sim_.Violation("the primary begins to decide, and SP ", row.sp_id, " has what it has lost");
      }
    }
  }

  bool HasOpenLoss(SpNode& node) const {
    const SpState& state = *node.database().state();
    const auto& committed = leader_->database.committed();
    return std::ranges::any_of(node.database().told(), [&](const auto& one) {
      const auto& [global_t, told] = one;
      const auto again = committed.find(global_t);  // a later restore was of a newer backup
      if (again != committed.end() && again->second == told.tx_id) return false;
      const bool is_here = global_t <= state.watermark || state.applied.contains(global_t);
      return is_here && told.at_us < restored_us_ && open_losses_.contains({told.tx_id, global_t});
    });
  }

  // An SP was welcomed, and then has noted that on its disk.
  void OnFollowed(SpId sp_id, std::size_t address, bool is_saved) {
    const PrimaryServer* server = address == leader_->address ? leader_.get() : old_.get();
    if (server == nullptr) return;
    if (server->term < followed_[sp_id])
      sim_.Violation("SP ", sp_id, " follows an older primary after a newer one");
    if (is_saved) followed_[sp_id] = std::max(followed_[sp_id], server->term);
  }

  // As an operator does: an SP that has what the primary lost joins again, each other one is started again.
  void EndRefused(SpId sp_id, const std::string& why) {
    if (!nodes_.contains(sp_id)) return;
    if (!has_restored_) return sim_.Violation("SP ", sp_id, " is refused for good: ", why);
    SpNode& node = *nodes_.at(sp_id);
    sim_.Trace("SP ", sp_id, " is refused: ", why);
    node.CrashDaemon();
    if (leader_->database.IsRegistered(sp_id) && !HasLost(node)) {
      sim_.After(sim_.Between(1'000, 100'000), [this, sp_id] {
        if (nodes_.contains(sp_id)) nodes_.at(sp_id)->StartDaemon();
      });
      return;
    }
    const auto [first, end] = clients_of_.at(sp_id);
    for (std::size_t i = first; i < end; ++i) clients_[i]->Retire();
    retired_.push_back(std::move(nodes_.at(sp_id)));
    nodes_.erase(sp_id);
    leader_->database.Release(sp_id);
    Join(next_sp_id_++);
  }

  // Whether its database has, or may have, a transaction that the primary lacks. "May": the position of a
  // copy is not known, and in a missing batch every transaction may have lost.
  bool HasLost(SpNode& node) {
    const SpState& state = *node.database().state();
    const auto& told = node.database().told();
    const auto was_lost = [this](const auto& one) { return WasLost(one.first, one.second); };
    const auto own_was_lost = [&](const auto& own) {
      return !told.contains(own.first) || WasLost(own.first, told.at(own.first));
    };
    return std::ranges::any_of(state.applied, own_was_lost) || above_gaps_.contains(state.watermark) ||
           (state.watermark > 0 && !told.contains(state.watermark)) ||
           std::any_of(told.begin(), told.upper_bound(state.watermark), was_lost);
  }

  // Also if the primary has decided the same transaction again since, and by chance under the same number: no history
  // tells that from another transaction.
  bool WasLost(GlobalT global_t, const Told& told) const {
    const auto& committed = leader_->database.committed();
    const auto found = committed.find(global_t);
    if (found == committed.end() || found->second != told.tx_id) return true;
    const auto lost = lost_at_us_.find({told.tx_id, global_t});
    return lost != lost_at_us_.end() && told.at_us < lost->second;
  }

  // A new SP with an empty database, as `psp cluster join` makes it; its COMMIT at the primary waits for the standby.
  void Join(SpId sp_id) {
    if (!leader_->database.IsRegistered(sp_id)) {
      sim_.Trace("SP ", sp_id, " is registered and joins");
      leader_->database.Register(sp_id);
      registered_at_[sp_id] = leader_->database.written();
    }
    if (leader_->standby && !leader_->standby->Has(registered_at_[sp_id])) {
      return sim_.After(1'000, [this, sp_id] { Join(sp_id); });
    }
    SpState empty;
    empty.joining = true;
    empty.watermark = -1;
    AddSp(sp_id, empty);
  }

  void StartPrimary() {
    if (leader_->daemon || leader_->start) return;
    leader_->start = std::make_shared<int>(0);
    const Epoch epoch = leader_->database.BeginEpoch(DrawHistory(&sim_));
    Serve(epoch, leader_->database.written());
  }

  // When the standby has what the daemon begins with.
  void Serve(Epoch epoch, std::uint64_t position) {
    if (leader_->standby && !leader_->standby->Has(position)) {
      return sim_.After(1'000, leader_->start, [this, epoch, position] { Serve(epoch, position); });
    }
    leader_->start.reset();
    leader_->daemon = std::make_unique<PrimaryDaemon>(
        &sim_, scenario_, &leader_->database, leader_->standby.get(), epoch, &network_, leader_->address,
        [this](const std::vector<std::string>& unheard) { OnReady(unheard); });
    WatchHearing();
  }

  // What the standby lacks is gone; the next standby is a copy of this one.
  void Promote(std::size_t address) {
    if (!leader_->standby) return;
    sim_.Trace("primary: the standby takes its place, at ", leader_->standby->flushed(), " of ",
               leader_->database.written());
    auto next = std::make_unique<PrimaryServer>(leader_->standby->copy(), address, leader_->term + 1);
    next->standby = std::make_unique<Standby>(&sim_, &next->database);
    old_ = std::exchange(leader_, std::move(next));
  }

  // The old one goes on, without a standby, at its address.
  void PromoteBesideTheOld() {
    if (!leader_->standby) return;
    leader_->standby->SetCut(true);
    leader_->start.reset();
    Promote(1 - leader_->address);
    sim_.Trace("primary: the old one lives on");
    StartPrimary();
  }

  void EndOld() {
    if (!old_) return;
    sim_.Trace("primary: the old one ends");
    network_.CutAll(old_->address);
    old_.reset();
  }

  void Begin(const Fault& fault) {
    if (fault.kind == Fault::Kind::kCrashPrimary) {
      if (fault.at_us % 2 == 0 && leader_->daemon) return EndPrimaryAsPlanned(fault);
      CrashPrimary();
    } else if (fault.kind == Fault::Kind::kRestorePrimary) {
      CrashPrimary();
      Restore();
    } else if (fault.kind == Fault::Kind::kPromoteStandby) {
      CrashPrimary();
      EndOld();
      Promote(leader_->address);
      old_.reset();
    } else if (fault.kind == Fault::Kind::kPromoteBesideTheOld) {
      EndOld();
      PromoteBesideTheOld();
    } else if (fault.kind == Fault::Kind::kCutStandby) {
      if (leader_->standby) leader_->standby->SetCut(true);
    } else if (nodes_.contains(fault.sp_id)) {
      Break(fault, *nodes_.at(fault.sp_id));
    }
    sim_.After(fault.duration_us, [this, fault] { Finish(fault); });
  }

  void EndPrimaryAsPlanned(const Fault& fault) {
    leader_->daemon->SayAway();
    EndWhenAllHaveHeard(fault);
  }

  void EndWhenAllHaveHeard(const Fault& fault) {
    if (!leader_->daemon) return Finish(fault);  // it has crashed meanwhile, and starts again as that says
    const bool waits = scenario_.mutation != Mutation::kAwayIsNotAwaited && !leader_->daemon->IsHeardByAll();
    if (waits) return sim_.After(1'000, [this, fault] { EndWhenAllHaveHeard(fault); });
    for (const auto& [sp_id, node] : nodes_) {
      const bool was_there = leader_->daemon->WasThereAtTheEnd("sp" + std::to_string(sp_id));
      if (was_there && node->daemon() && node->daemon()->Follows(leader_->address)) {
        sim_.Violation("SP ", sp_id, " has not heard that its primary ends for planned work");
      }
    }
    CrashPrimary();
    sim_.After(fault.duration_us, [this, fault] { Finish(fault); });
  }

  void CrashPrimary() {
    sim_.Trace("primary: crashes");
    leader_->daemon.reset();
    leader_->start.reset();
    network_.CutAll(leader_->address);
  }

  void BackUpAtGap() {
    if (leader_->database.unbroken_t() < leader_->database.closed_t())
      return backups_.push_back(leader_->database);
    if (!is_calm_) sim_.After(500, [this] { BackUpAtGap(); });
  }

  void Restore() {
    if (backups_.empty()) return;
    const std::int64_t last = static_cast<std::int64_t>(backups_.size()) - 1;
    const PrimaryDatabase& backup = backups_[static_cast<std::size_t>(sim_.Between(0, last))];
    if (!has_restored_ || leader_->database.closed_t() > restored_t_) open_losses_.clear();
    for (const auto& [global_t, tx_id] : leader_->database.committed()) {
      const primary::Verdict* kept = backup.DecisionOf(tx_id);
      if (kept != nullptr && kept->global_t == global_t) continue;
      lost_.insert({tx_id, global_t});
      open_losses_.insert({tx_id, global_t});
      lost_at_us_[{tx_id, global_t}] = sim_.now_us();
    }
    const GlobalT known_t = std::min(backup.closed_t(), leader_->database.unbroken_t());
    for (GlobalT t = backup.unbroken_t() + 1; t <= known_t; ++t) above_gaps_.insert(t);
    sim_.Trace("primary: restored, goes back from ", leader_->database.closed_t(), " to ", backup.closed_t());
    leader_->database = backup;
    restored_t_ = backup.closed_t();
    restored_us_ = sim_.now_us();
    has_restored_ = true;
  }

  void Break(const Fault& fault, SpNode& node) {
    switch (fault.kind) {
      case Fault::Kind::kCrashPrimary:
      case Fault::Kind::kRestorePrimary:
      case Fault::Kind::kCutStandby:
      case Fault::Kind::kPromoteStandby:
      case Fault::Kind::kPromoteBesideTheOld:
        break;
      case Fault::Kind::kCrashDaemon:
        node.CrashDaemon();
        break;
      case Fault::Kind::kCrashPostgres:
        CrashPostgres(node);
        break;
      case Fault::Kind::kCutConnection:
        network_.Cut(fault.sp_id);
        break;
      case Fault::Kind::kSlowLink:
        network_.SetSlow(fault.sp_id, true);
        break;
      case Fault::Kind::kStallApply:
        if (node.daemon()) node.daemon()->SetStalled(true);
        break;
    }
  }

  void Finish(const Fault& fault) {
    if (fault.kind == Fault::Kind::kCutStandby) {
      if (leader_->standby) leader_->standby->SetCut(false);
      return;
    }
    if (fault.kind == Fault::Kind::kPromoteBesideTheOld) return EndOld();
    if (fault.sp_id == 0) return StartPrimary();
    if (!nodes_.contains(fault.sp_id)) return;  // it comes later
    SpNode& node = *nodes_.at(fault.sp_id);
    if (fault.kind == Fault::Kind::kCrashDaemon) node.StartDaemon();
    if (fault.kind == Fault::Kind::kCrashPostgres) node.StartPostgres();
    if (fault.kind == Fault::Kind::kSlowLink) network_.SetSlow(fault.sp_id, false);
    if (fault.kind == Fault::Kind::kStallApply && node.daemon()) node.daemon()->SetStalled(false);
  }

  void CrashPostgres(SpNode& node) {
    node.CrashPostgres();
    const auto [first, end] = clients_of_.at(node.sp_id());
    for (std::size_t i = first; i < end; ++i) clients_[i]->OnPostgresCrash();
  }

  bool Drained() {
    if (!leader_->daemon || !leader_->daemon->idle()) return false;
    const auto is_idle = [](const auto& client) { return client->idle(); };
    if (!std::all_of(clients_.begin(), clients_.end(), is_idle)) return false;
    return std::all_of(nodes_.begin(), nodes_.end(), [this](const auto& entry) {
      SpDaemon* daemon = entry.second->daemon();
      return daemon != nullptr && daemon->Drained(leader_->daemon->closed_t());
    });
  }

  std::string WhatHangs() {
    std::string text =
        leader_->daemon ? "primary idle " + std::to_string(leader_->daemon->idle()) : "no primary";
    if (leader_->daemon) text += " at " + std::to_string(leader_->daemon->closed_t());
    for (const auto& [sp_id, node] : nodes_) {
      text += "; SP " + std::to_string(sp_id) + " at " + std::to_string(node->database().state()->watermark) +
              " " + (node->daemon() ? node->daemon()->StateText() : "no daemon");
    }
    return text;
  }

  void Check() {
    std::map<SpId, SpStatePtr> states;
    for (const auto& [sp_id, node] : nodes_) states[sp_id] = node->database().state();
    CheckEverything(&sim_, scenario_, history_, leader_->database, lost_, states);
  }

  RunResult Result() const {
    RunResult result{sim_.violations(), sim_.TraceText(), 0, 0, 0, 0};
    for (const auto& [tx_id, record] : history_) {
      if (record.report == Report::kCommitted) ++result.committed;
      if (record.report == Report::kAborted) ++result.aborted;
      if (record.report == Report::kAborted && record.is_bad) ++result.refused;
      if (record.report == Report::kUnknown) ++result.unknown;
    }
    return result;
  }

  const Scenario scenario_;
  Simulator sim_;
  Network network_;
  History history_;  // before the servers, which ask it also when they end
  std::unique_ptr<PrimaryServer> leader_;
  std::unique_ptr<PrimaryServer> old_;  // which does not know that it is none any more
  std::map<SpId, int> followed_;        // the newest term whose primary each SP has noted
  std::map<SpId, std::uint64_t> registered_at_;
  std::vector<PrimaryDatabase> backups_;
  bool has_restored_ = false;
  GlobalT restored_t_ = 0;        // where the last one ended
  std::int64_t restored_us_ = 0;  // and when it was
  Lost open_losses_;              // by restores since the last decision before them
  std::set<SpId> accepts_;        // where the operator will give up what is lost
  bool is_calm_ = false;          // no new transactions
  Lost lost_;
  std::map<Lost::value_type, std::int64_t> lost_at_us_;  // when last
  std::set<GlobalT> above_gaps_;  // of restored databases; where an SP could stand that has what is missing
  std::map<SpId, std::unique_ptr<SpNode>> nodes_;
  std::vector<std::unique_ptr<SpNode>> retired_;  // some callbacks may still ask them
  SpId next_sp_id_ = 0;
  std::vector<std::unique_ptr<Client>> clients_;
  std::map<SpId, std::pair<std::size_t, std::size_t>> clients_of_;  // first, end
};

}  // namespace

RunResult Run(const Scenario& scenario, bool tracing) { return World(scenario, tracing).Run(); }

}  // namespace psp::simulation
