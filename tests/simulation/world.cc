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

// What a start of the primary's daemon draws.
std::string DrawHistory(Simulator* sim) {
  const std::uint64_t number = sim->Number();
  return std::string(reinterpret_cast<const char*>(&number), sizeof number);
}

class World {
 public:
  World(const Scenario& scenario, bool tracing)
      : scenario_(scenario),
        sim_(scenario.seed, tracing),
        network_(&sim_, scenario_),
        database_(scenario_, history_) {
    SpState initial;
    for (const auto& [key, row] : database_.data()) initial.Put(key, row.image);
    for (SpId sp_id = 1; sp_id <= scenario_.sps; ++sp_id) AddSp(sp_id, initial);
    for (std::size_t i = 0; i < scenario_.joins_us.size(); ++i) {
      sim_.At(scenario_.joins_us[i], [this, i] { Join(scenario_.sps + 1 + static_cast<SpId>(i)); });
    }
    next_sp_id_ = scenario_.sps + static_cast<SpId>(scenario_.joins_us.size()) + 1;
    for (const std::int64_t at_us : scenario_.backups_us) {
      sim_.At(at_us, [this] { backups_.push_back(database_); });
    }
    for (const std::int64_t at_us : scenario_.gap_backups_us) {
      sim_.At(at_us, [this] { BackUpAtGap(); });
    }
    if (scenario_.has_standby) standby_ = std::make_unique<Standby>(&sim_, &database_);
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
    node->on_refused = [this, sp_id](const std::string& why) {
      sim_.After(0, [this, sp_id, why] { EndRefused(sp_id, why); });
    };
    node->StartDaemon();
  }

  // As an operator does: an SP that has what the primary lost joins again, each other one is started again.
  void EndRefused(SpId sp_id, const std::string& why) {
    if (!nodes_.contains(sp_id)) return;
    if (!has_restored_) return sim_.Violation("SP ", sp_id, " is refused for good: ", why);
    SpNode& node = *nodes_.at(sp_id);
    sim_.Trace("SP ", sp_id, " is refused: ", why);
    node.CrashDaemon();
    if (database_.IsRegistered(sp_id) && !HasLost(node)) {
      sim_.After(sim_.Between(1'000, 100'000), [this, sp_id] {
        if (nodes_.contains(sp_id)) nodes_.at(sp_id)->StartDaemon();
      });
      return;
    }
    const auto [first, end] = clients_of_.at(sp_id);
    for (std::size_t i = first; i < end; ++i) clients_[i]->Retire();
    retired_.push_back(std::move(nodes_.at(sp_id)));
    nodes_.erase(sp_id);
    database_.Release(sp_id);
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
    const auto& committed = database_.committed();
    const auto found = committed.find(global_t);
    if (found == committed.end() || found->second != told.tx_id) return true;
    const auto lost = lost_at_us_.find({told.tx_id, global_t});
    return lost != lost_at_us_.end() && told.at_us < lost->second;
  }

  // A new SP with an empty database, as `psp cluster join` makes it; its COMMIT at the primary waits for the standby.
  void Join(SpId sp_id) {
    if (!database_.IsRegistered(sp_id)) {
      sim_.Trace("SP ", sp_id, " is registered and joins");
      database_.Register(sp_id);
      registered_at_[sp_id] = database_.written();
    }
    if (standby_ && !standby_->Has(registered_at_[sp_id])) {
      return sim_.After(1'000, [this, sp_id] { Join(sp_id); });
    }
    SpState empty;
    empty.joining = true;
    empty.watermark = -1;
    AddSp(sp_id, empty);
  }

  void StartPrimary() {
    if (primary_ || start_) return;
    start_ = std::make_shared<int>(0);
    const Epoch epoch = database_.BeginEpoch(DrawHistory(&sim_));
    Serve(epoch, database_.written());
  }

  // When the standby has what the daemon begins with.
  void Serve(Epoch epoch, std::uint64_t position) {
    if (standby_ && !standby_->Has(position)) {
      return sim_.After(1'000, start_, [this, epoch, position] { Serve(epoch, position); });
    }
    start_.reset();
    primary_ =
        std::make_unique<PrimaryDaemon>(&sim_, scenario_, &database_, standby_.get(), epoch, &network_);
  }

  // What the standby lacks is gone; the next standby is a copy of this one.
  void Promote() {
    if (!standby_) return;
    sim_.Trace("primary: the standby takes its place, at ", standby_->flushed(), " of ", database_.written());
    database_ = PrimaryDatabase(standby_->copy());
    standby_ = std::make_unique<Standby>(&sim_, &database_);
  }

  void Begin(const Fault& fault) {
    if (fault.kind == Fault::Kind::kCrashPrimary) {
      CrashPrimary();
    } else if (fault.kind == Fault::Kind::kRestorePrimary) {
      CrashPrimary();
      Restore();
    } else if (fault.kind == Fault::Kind::kPromoteStandby) {
      CrashPrimary();
      Promote();
    } else if (fault.kind == Fault::Kind::kCutStandby) {
      if (standby_) standby_->SetCut(true);
    } else if (nodes_.contains(fault.sp_id)) {
      Break(fault, *nodes_.at(fault.sp_id));
    }
    sim_.After(fault.duration_us, [this, fault] { Finish(fault); });
  }

  void CrashPrimary() {
    sim_.Trace("primary: crashes");
    primary_.reset();
    start_.reset();
    network_.CutAll();
  }

  void BackUpAtGap() {
    if (database_.unbroken_t() < database_.closed_t()) return backups_.push_back(database_);
    if (!is_calm_) sim_.After(500, [this] { BackUpAtGap(); });
  }

  void Restore() {
    if (backups_.empty()) return;
    const std::int64_t last = static_cast<std::int64_t>(backups_.size()) - 1;
    const PrimaryDatabase& backup = backups_[static_cast<std::size_t>(sim_.Between(0, last))];
    for (const auto& [global_t, tx_id] : database_.committed()) {
      const primary::Verdict* kept = backup.DecisionOf(tx_id);
      if (kept != nullptr && kept->global_t == global_t) continue;
      lost_.insert({tx_id, global_t});
      lost_at_us_[{tx_id, global_t}] = sim_.now_us();
    }
    const GlobalT known_t = std::min(backup.closed_t(), database_.unbroken_t());
    for (GlobalT t = backup.unbroken_t() + 1; t <= known_t; ++t) above_gaps_.insert(t);
    sim_.Trace("primary: restored, goes back from ", database_.closed_t(), " to ", backup.closed_t());
    database_ = backup;
    has_restored_ = true;
  }

  void Break(const Fault& fault, SpNode& node) {
    switch (fault.kind) {
      case Fault::Kind::kCrashPrimary:
      case Fault::Kind::kRestorePrimary:
      case Fault::Kind::kCutStandby:
      case Fault::Kind::kPromoteStandby:
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
      if (standby_) standby_->SetCut(false);
      return;
    }
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
    if (!primary_ || !primary_->idle()) return false;
    const auto is_idle = [](const auto& client) { return client->idle(); };
    if (!std::all_of(clients_.begin(), clients_.end(), is_idle)) return false;
    return std::all_of(nodes_.begin(), nodes_.end(), [this](const auto& entry) {
      SpDaemon* daemon = entry.second->daemon();
      return daemon != nullptr && daemon->Drained(primary_->closed_t());
    });
  }

  std::string WhatHangs() {
    std::string text = primary_ ? "primary idle " + std::to_string(primary_->idle()) : "no primary";
    if (primary_) text += " at " + std::to_string(primary_->closed_t());
    for (const auto& [sp_id, node] : nodes_) {
      text += "; SP " + std::to_string(sp_id) + " at " + std::to_string(node->database().state()->watermark) +
              " " + (node->daemon() ? node->daemon()->StateText() : "no daemon");
    }
    return text;
  }

  void Check() {
    std::map<SpId, SpStatePtr> states;
    for (const auto& [sp_id, node] : nodes_) states[sp_id] = node->database().state();
    CheckEverything(&sim_, scenario_, history_, database_, lost_, states);
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
  PrimaryDatabase database_;
  std::unique_ptr<Standby> standby_;  // if there is one
  std::map<SpId, std::uint64_t> registered_at_;
  std::shared_ptr<const int> start_;  // while the primary's daemon starts
  std::vector<PrimaryDatabase> backups_;
  bool has_restored_ = false;
  bool is_calm_ = false;  // no new transactions
  Lost lost_;
  std::map<Lost::value_type, std::int64_t> lost_at_us_;  // when last
  std::set<GlobalT> above_gaps_;  // of restored databases; where an SP could stand that has what is missing
  History history_;
  std::unique_ptr<PrimaryDaemon> primary_;
  std::map<SpId, std::unique_ptr<SpNode>> nodes_;
  std::vector<std::unique_ptr<SpNode>> retired_;  // some callbacks may still ask them
  SpId next_sp_id_ = 0;
  std::vector<std::unique_ptr<Client>> clients_;
  std::map<SpId, std::pair<std::size_t, std::size_t>> clients_of_;  // first, end
};

}  // namespace

RunResult Run(const Scenario& scenario, bool tracing) { return World(scenario, tracing).Run(); }

}  // namespace psp::simulation
