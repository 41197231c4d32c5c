// Runs seeds. One seed again, with its trace: simulation_test --seed N, or PSP_SIM_SEED=N. More of them, from
// the first one not in the list on: PSP_SIM_SEEDS=N.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "tests/simulation/world.h"

namespace psp::simulation {
namespace {

constexpr std::uint64_t kSeeds = 1000;
constexpr std::uint64_t kMutationSeeds = 4 * kSeeds;  // until one finds the mistake
// Those that have found something.
constexpr std::uint64_t kFinders[] = {39,   45,   56,   69,   131,  138,  264,  272,   426,  456,  471,
                                      690,  726,  841,  1206, 1726, 2204, 2384, 2394,  2419, 3158, 3599,
                                      4951, 5728, 5842, 6125, 6401, 6618, 9000, 12213, 12791};

std::optional<std::uint64_t> FromEnvironment(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? std::nullopt : std::optional<std::uint64_t>(std::stoull(text));
}

std::string Text(const RunResult& result) {
  std::string text;
  for (const std::string& violation : result.violations) text += violation + "\n";
  return text;
}

// The trace goes to stdout: it is long, and the same whenever the seed is run again.
void Replay(const Scenario& scenario) {
  const RunResult result = simulation::Run(scenario, true);
  std::cout << result.trace << Describe(scenario);
}

TEST(Simulation, HoldsForEverySeed) {
  const auto only = FromEnvironment("PSP_SIM_SEED");
  const std::uint64_t first = only.value_or(1);
  const std::uint64_t last = only.value_or(FromEnvironment("PSP_SIM_SEEDS").value_or(kSeeds));
  std::vector<std::uint64_t> seeds;
  for (std::uint64_t seed = first; seed <= last; ++seed) seeds.push_back(seed);
  if (!only) seeds.insert(seeds.end(), std::begin(kFinders), std::end(kFinders));
  std::size_t committed = 0;
  std::size_t aborted = 0;
  std::size_t unknown = 0;
  std::size_t refused = 0;
  for (const std::uint64_t seed : seeds) {
    const Scenario scenario = MakeScenario(seed);
    const RunResult result = simulation::Run(scenario, false);
    committed += result.committed;
    aborted += result.aborted;
    unknown += result.unknown;
    refused += result.refused;
    if (only || !result.violations.empty()) Replay(scenario);
    ASSERT_TRUE(result.violations.empty()) << Text(result) << "again with: PSP_SIM_SEED=" << seed;
  }
  std::cout << seeds.size() << " runs: " << committed << " committed, " << aborted << " aborted, " << unknown
            << " unknown, " << refused << " refused as bad input\n";
  EXPECT_GT(committed, 0U);
  EXPECT_TRUE(only || refused > 0);
}

TEST(Simulation, ASeedGivesTheSameRunAgain) {
  const Scenario scenario = MakeScenario(7);
  EXPECT_EQ(simulation::Run(scenario, true).trace, simulation::Run(scenario, true).trace);
}

// The checks can fail: each of these mistakes, built into a fake, is found by some seed.
class MutationTest : public ::testing::TestWithParam<Mutation> {};

TEST_P(MutationTest, IsFound) {
  std::vector<std::uint64_t> seeds(std::begin(kFinders), std::end(kFinders));
  for (std::uint64_t seed = 1; seed <= kMutationSeeds; ++seed) seeds.push_back(seed);
  for (const std::uint64_t seed : seeds) {
    Scenario scenario = MakeScenario(seed);
    scenario.mutation = GetParam();
    const RunResult result = simulation::Run(scenario, false);
    if (result.violations.empty()) continue;
    std::cout << "seed " << seed << ": " << result.violations.front() << "\n";
    return;
  }
  FAIL() << "no seed found it";
}

INSTANTIATE_TEST_SUITE_P(
    Mistakes, MutationTest,
    ::testing::Values(
        Mutation::kNoConflictCheck, Mutation::kDecisionBeforeDurable, Mutation::kAckBeforeDurable,
        Mutation::kOwnMarkersAreTaken, Mutation::kNoWaitForOwnBackend, Mutation::kWatermarkBeforeRows,
        Mutation::kCopyIsNotCleared, Mutation::kJoinedBeforeTheLog, Mutation::kLogIsNotKeptForJoiners,
        Mutation::kHistoryIsNotDrawn, Mutation::kGapsAreNotSeen, Mutation::kEpochsAreNotSaved,
        Mutation::kCollectedKeysAreNew, Mutation::kLostOwnAreThere, Mutation::kCommitsBeforeApplyHasBegun,
        Mutation::kSchemaChangesAreRows, Mutation::kUnknownIsTakenForKnown, Mutation::kCatalogIsNotAsked,
        Mutation::kFormsAreNotTold, Mutation::kKeysOfImagesAreNotTold, Mutation::kOlderDefinitionsAreTaken,
        Mutation::kWaitingAreNotCheckedAgain, Mutation::kMissingRowsAreOverlooked,
        Mutation::kJoinerAcknowledges, Mutation::kNobodyIsHeld, Mutation::kReservationsNeverEnd,
        Mutation::kEmptiedRowsAreCopied, Mutation::kSharedIsNotTold, Mutation::kEndedIsNotTold,
        Mutation::kEndedIsToldLate, Mutation::kReferrersReadIsNotTold, Mutation::kTableReadIsNotTold,
        Mutation::kReadsAreNotLookedUp, Mutation::kCancelledWaitIsProof, Mutation::kRepeatedBatchIsProven,
        Mutation::kForgottenAreAborted, Mutation::kEmptyEpochsAreForgotten, Mutation::kOlderPrimaryIsFollowed,
        Mutation::kStandbyIsNotWatched, Mutation::kStandstillNeverEnds, Mutation::kAwayIsNotAwaited,
        Mutation::kAwayRunsTimers, Mutation::kLeaderHearsNobody));

}  // namespace
}  // namespace psp::simulation

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::string(argv[i]) == "--seed") setenv("PSP_SIM_SEED", argv[i + 1], 1);
  }
  return RUN_ALL_TESTS();
}
