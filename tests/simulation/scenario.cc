#include "tests/simulation/scenario.h"

#include <algorithm>
#include <array>
#include <sstream>

#include "tests/simulation/simulator.h"

namespace psp::simulation {
namespace {

constexpr std::array<const char*, 10> kFaultNames = {"crash of the primary daemon",
                                                     "crash of the daemon",
                                                     "crash of PostgreSQL",
                                                     "connection cut",
                                                     "slow link",
                                                     "apply stalled",
                                                     "restore of the primary",
                                                     "standby cut off",
                                                     "promotion of the standby",
                                                     "promotion beside the old primary"};

void AddRestores(Scenario* scenario) {
  Simulator dice(scenario->seed ^ 0xBACC, false);
  if (!dice.Chance(30)) return;
  for (std::int64_t backups = dice.Between(1, 2); backups > 0; --backups) {
    scenario->backups_us.push_back(dice.Between(0, scenario->run_us * 3 / 4));
  }
  const std::int64_t first = *std::ranges::min_element(scenario->backups_us);
  const auto restore = [&](std::int64_t times) {
    for (; times > 0; --times) {
      scenario->faults.push_back({Fault::Kind::kRestorePrimary, 0, dice.Between(first, scenario->run_us),
                                  dice.Between(1'000, 1'000'000)});
    }
  };
  restore(dice.Between(1, 2));
  if (dice.Chance(30)) restore(2);
}

// Soon after the backup, so that somebody stands where it has the gap.
void AddRestoreWithGap(Scenario* scenario) {
  Simulator dice(scenario->seed ^ 0x6A9, false);
  if (scenario->executors == 1 || !dice.Chance(20)) return;
  const std::int64_t at_us = dice.Between(50'000, scenario->run_us * 3 / 4);
  scenario->gap_backups_us.push_back(at_us);
  scenario->faults.push_back({Fault::Kind::kRestorePrimary, 0, at_us + dice.Between(5'000, 100'000),
                              dice.Between(1'000, 1'000'000)});
}

// Transactions that are old when the primary has already collected what they lack.
void AddOldSnapshots(Scenario* scenario) {
  Simulator dice(scenario->seed ^ 0xA6E, false);
  if (!dice.Chance(25)) return;
  scenario->long_pauses_percent = 40;
  scenario->housekeeping_interval_us = dice.Between(10'000, 40'000);
}

void AddBadInput(Scenario* scenario) {
  Simulator dice(scenario->seed ^ 0xBAD, false);
  if (dice.Chance(30)) scenario->bad_input_percent = static_cast<int>(dice.Between(1, 30));
}

// Promoted mostly while it is cut off, or soon after.
void AddStandby(Scenario* scenario) {
  Simulator dice(scenario->seed ^ 0x57B, false);
  if (!scenario->backups_us.empty() || !scenario->gap_backups_us.empty() || !dice.Chance(40)) return;
  scenario->has_standby = true;
  for (std::int64_t cuts = dice.Between(1, 4); cuts > 0; --cuts) {
    std::int64_t at_us = dice.Between(50'000, scenario->run_us);
    const std::int64_t cut_us =
        dice.Chance(50) ? dice.Between(5'000, 400'000) : dice.Between(400'000, 1'500'000);
    if (!scenario->joins_us.empty() && dice.Chance(60)) {  // while somebody joins
      at_us = scenario->joins_us.front() + dice.Between(1'000, 200'000);
    }
    scenario->faults.push_back({Fault::Kind::kCutStandby, 0, at_us, cut_us});
    if (!dice.Chance(60)) continue;
    const std::int64_t promoted_us = at_us + dice.Between(1'000, cut_us + 20'000);
    scenario->faults.push_back({Fault::Kind::kPromoteStandby, 0, promoted_us, dice.Between(1'000, 500'000)});
    if (!dice.Chance(50)) continue;  // a start in between
    scenario->faults.push_back({Fault::Kind::kCrashPrimary, 0,
                                at_us + dice.Between(500, (promoted_us - at_us) / 2),
                                dice.Between(500, 5'000)});
  }
}

// Most of them while SPs lose their connections, or their daemons, so that they choose again.
void AddOldPrimaries(Scenario* scenario) {
  Simulator dice(scenario->seed ^ 0x01D, false);
  if (!scenario->has_standby || !dice.Chance(70)) return;
  for (std::int64_t times = dice.Between(1, 3); times > 0; --times) {
    const std::int64_t at_us = dice.Between(50'000, scenario->run_us);
    const std::int64_t lives_us = dice.Between(50'000, 2'000'000);
    scenario->faults.push_back({Fault::Kind::kPromoteBesideTheOld, 0, at_us, lives_us});
    for (SpId sp_id = 1; sp_id <= scenario->sps; ++sp_id) {
      if (!dice.Chance(50)) continue;
      const auto kind = dice.Chance(50) ? Fault::Kind::kCrashDaemon : Fault::Kind::kCutConnection;
      scenario->faults.push_back(
          {kind, sp_id, at_us + dice.Between(1'000, lives_us), dice.Between(1'000, 200'000)});
    }
  }
}

// While somebody joins, with what nobody writes again.
void AddLastPromotion(Scenario* scenario) {
  Simulator dice(scenario->seed ^ 0x1A57, false);
  if (!scenario->has_standby || scenario->joins_us.empty() || !dice.Chance(40)) return;
  const std::int64_t cut_us = scenario->joins_us.back() + dice.Between(20'000, 700'000);
  if (cut_us >= scenario->run_us) return;
  scenario->faults.push_back({Fault::Kind::kCutStandby, 0, cut_us, scenario->run_us - cut_us});
  scenario->faults.push_back(
      {Fault::Kind::kPromoteStandby, 0, scenario->run_us - dice.Between(1, 20'000), 1'000});
}

}  // namespace

Scenario MakeScenario(std::uint64_t seed) {
  Simulator dice(seed ^ 0x5EED, false);
  Scenario scenario;
  scenario.seed = seed;
  scenario.sps = static_cast<SpId>(dice.Between(1, 4));
  scenario.clients_per_sp = static_cast<int>(dice.Between(1, 5));
  scenario.counters = dice.Between(1, 4);
  scenario.names = dice.Between(2, 5);
  scenario.executors = static_cast<std::size_t>(dice.Between(1, 3));
  scenario.batch_transactions_max = static_cast<std::size_t>(dice.Between(1, 6));
  scenario.message_bytes_max = static_cast<std::size_t>(dice.Between(1, 600));
  scenario.recent_bytes_max = static_cast<std::size_t>(dice.Between(0, 5000));
  scenario.outstanding_bytes_max = static_cast<std::size_t>(dice.Between(1, 5000));
  scenario.latency_us = dice.Between(100, 60'000);
  scenario.backend_dies_percent = static_cast<int>(dice.Between(0, 5));
  const std::int64_t joiners = dice.Chance(40) ? dice.Between(1, 2) : 0;
  for (std::int64_t i = 0; i < joiners; ++i) scenario.joins_us.push_back(dice.Between(0, 3'000'000));
  if (joiners > 0) scenario.still_rows = dice.Between(0, 60);
  const auto sps = scenario.sps + static_cast<SpId>(joiners);
  const std::int64_t faults = dice.Between(0, 8);
  for (std::int64_t i = 0; i < faults; ++i) {
    Fault fault;
    fault.kind =
        static_cast<Fault::Kind>(dice.Between(0, static_cast<std::int64_t>(Fault::Kind::kStallApply)));
    if (fault.kind != Fault::Kind::kCrashPrimary) fault.sp_id = static_cast<SpId>(dice.Between(1, sps));
    fault.at_us = dice.Between(50'000, scenario.run_us);
    if (joiners > 0 && dice.Chance(50)) {  // soon after somebody has come
      const std::int64_t join = dice.Between(0, joiners - 1);
      if (fault.sp_id != 0) fault.sp_id = scenario.sps + 1 + static_cast<SpId>(join);
      fault.at_us = scenario.joins_us[static_cast<std::size_t>(join)] + dice.Between(10'000, 400'000);
    }
    fault.duration_us = dice.Chance(50) ? dice.Between(1'000, 50'000) : dice.Between(50'000, 2'000'000);
    scenario.faults.push_back(fault);
  }
  AddRestores(&scenario);
  AddRestoreWithGap(&scenario);
  AddOldSnapshots(&scenario);
  AddBadInput(&scenario);
  AddStandby(&scenario);
  AddLastPromotion(&scenario);
  AddOldPrimaries(&scenario);
  std::sort(scenario.faults.begin(), scenario.faults.end(),
            [](const Fault& a, const Fault& b) { return a.at_us < b.at_us; });
  return scenario;
}

std::string Describe(const Scenario& scenario) {
  std::ostringstream out;
  out << "seed " << scenario.seed << ": " << scenario.sps << " SPs with " << scenario.clients_per_sp
      << " clients each, " << scenario.counters << " counters, " << scenario.names << " names, "
      << scenario.executors << " executors, batches of " << scenario.batch_transactions_max << ", latency "
      << scenario.latency_us << " us, " << scenario.bad_input_percent << "% bad input"
      << (scenario.has_standby ? ", a standby" : "") << "\n";
  for (std::size_t i = 0; i < scenario.joins_us.size(); ++i) {
    out << "  " << scenario.joins_us[i] << " us  SP " << scenario.sps + 1 + i << " joins\n";
  }
  for (const std::int64_t at_us : scenario.backups_us) out << "  " << at_us << " us  backup of the primary\n";
  for (const std::int64_t at_us : scenario.gap_backups_us) {
    out << "  " << at_us << " us  backup of the primary as soon as it has a gap\n";
  }
  for (const Fault& fault : scenario.faults) {
    out << "  " << fault.at_us << " us  " << kFaultNames.at(static_cast<std::size_t>(fault.kind));
    if (fault.sp_id != 0) out << " of SP " << fault.sp_id;
    out << " for " << fault.duration_us << " us\n";
  }
  return out.str();
}

}  // namespace psp::simulation
