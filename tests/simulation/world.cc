#include "tests/simulation/world.h"

#include <algorithm>
#include <memory>

#include "tests/simulation/checks.h"
#include "tests/simulation/client.h"
#include "tests/simulation/primary_daemon.h"
#include "tests/simulation/rows.h"

namespace psp::simulation {
namespace {

constexpr std::int64_t kCalmUs = 120'000'000;  // virtual time after which something hangs

class World {
 public:
  World(const Scenario& scenario, bool tracing)
      : scenario_(scenario), sim_(scenario.seed, tracing), network_(&sim_, scenario_), database_(scenario_) {
    SpState initial;
    for (const auto& [key, row] : database_.data()) initial.Put(key, row.image);
    for (SpId sp_id = 1; sp_id <= scenario_.sps; ++sp_id) AddSp(sp_id, initial);
    StartPrimary();
    for (const Fault& fault : scenario_.faults) {
      sim_.At(fault.at_us, [this, fault] { Begin(fault); });
    }
  }

  RunResult Run() {
    for (const auto& client : clients_) client->Start();
    sim_.RunUntil(scenario_.run_us);
    for (const auto& client : clients_) client->Stop();
    while (sim_.violations().empty() && !Drained()) {
      if (sim_.now_us() > scenario_.run_us + kCalmUs) {
        sim_.Violation("something hangs: ", WhatHangs());
        break;
      }
      sim_.RunUntil(sim_.now_us() + 100'000);
    }
    if (sim_.violations().empty()) Check();
    return Result();
  }

 private:
  void AddSp(SpId sp_id, const SpState& initial) {
    SpNode* node =
        nodes_.emplace_back(std::make_unique<SpNode>(&sim_, scenario_, sp_id, &network_, initial)).get();
    const std::size_t first = clients_.size();
    for (int i = 0; i < scenario_.clients_per_sp; ++i) {
      clients_.push_back(std::make_unique<Client>(&sim_, scenario_, node, &history_, clients_.size() + 1));
    }
    clients_of_.emplace_back(first, clients_.size());
    node->end_blocker = [this](SpDatabase::LockOwner owner) {
      if (owner != 0 && owner <= clients_.size()) clients_[owner - 1]->EndIfRunning();
    };
    node->StartDaemon();
  }

  void StartPrimary() {
    if (!primary_) primary_ = std::make_unique<PrimaryDaemon>(&sim_, scenario_, &database_, &network_);
  }

  SpNode& Node(SpId sp_id) { return *nodes_.at(sp_id - 1); }

  void Begin(const Fault& fault) {
    switch (fault.kind) {
      case Fault::Kind::kCrashPrimary:
        sim_.Trace("primary: crashes");
        primary_.reset();
        network_.CutAll();
        break;
      case Fault::Kind::kCrashDaemon:
        Node(fault.sp_id).CrashDaemon();
        break;
      case Fault::Kind::kCrashPostgres:
        CrashPostgres(fault.sp_id);
        break;
      case Fault::Kind::kCutConnection:
        network_.Cut(fault.sp_id);
        break;
      case Fault::Kind::kSlowLink:
        network_.SetSlow(fault.sp_id, true);
        break;
      case Fault::Kind::kStallApply:
        if (Node(fault.sp_id).daemon()) Node(fault.sp_id).daemon()->SetStalled(true);
        break;
    }
    sim_.After(fault.duration_us, [this, fault] { Finish(fault); });
  }

  void Finish(const Fault& fault) {
    if (fault.kind == Fault::Kind::kCrashPrimary) return StartPrimary();
    SpNode& node = Node(fault.sp_id);
    if (fault.kind == Fault::Kind::kCrashDaemon) node.StartDaemon();
    if (fault.kind == Fault::Kind::kCrashPostgres) node.StartPostgres();
    if (fault.kind == Fault::Kind::kSlowLink) network_.SetSlow(fault.sp_id, false);
    if (fault.kind == Fault::Kind::kStallApply && node.daemon()) node.daemon()->SetStalled(false);
  }

  void CrashPostgres(SpId sp_id) {
    Node(sp_id).CrashPostgres();
    const auto [first, end] = clients_of_.at(sp_id - 1);
    for (std::size_t i = first; i < end; ++i) clients_[i]->OnPostgresCrash();
  }

  bool Drained() {
    if (!primary_ || !primary_->idle()) return false;
    const auto is_idle = [](const auto& client) { return client->idle(); };
    if (!std::all_of(clients_.begin(), clients_.end(), is_idle)) return false;
    return std::all_of(nodes_.begin(), nodes_.end(), [this](const auto& node) {
      return node->daemon() && node->daemon()->Drained(primary_->closed_t());
    });
  }

  std::string WhatHangs() {
    std::string text = primary_ ? "primary idle " + std::to_string(primary_->idle()) : "no primary";
    if (primary_) text += " at " + std::to_string(primary_->closed_t());
    for (const auto& node : nodes_) {
      text += "; SP " + std::to_string(node->sp_id()) + " at " +
              std::to_string(node->database().state()->watermark);
    }
    return text;
  }

  void Check() {
    std::vector<SpStatePtr> states;
    for (const auto& node : nodes_) states.push_back(node->database().state());
    CheckEverything(&sim_, scenario_, history_, database_, states);
  }

  RunResult Result() const {
    RunResult result{sim_.violations(), sim_.TraceText(), 0, 0, 0};
    for (const auto& [tx_id, record] : history_) {
      if (record.report == Report::kCommitted) ++result.committed;
      if (record.report == Report::kAborted) ++result.aborted;
      if (record.report == Report::kUnknown) ++result.unknown;
    }
    return result;
  }

  const Scenario scenario_;
  Simulator sim_;
  Network network_;
  PrimaryDatabase database_;
  History history_;
  std::unique_ptr<PrimaryDaemon> primary_;
  std::vector<std::unique_ptr<SpNode>> nodes_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::vector<std::pair<std::size_t, std::size_t>> clients_of_;  // of each SP: first, end
};

}  // namespace

RunResult Run(const Scenario& scenario, bool tracing) { return World(scenario, tracing).Run(); }

}  // namespace psp::simulation
