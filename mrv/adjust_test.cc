#include "mrv/adjust.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace psp::mrv {
namespace {

AdjustParameters With(AdjustStrategy strategy) { return {.strategy = strategy}; }

Observed Rate(double abort_rate) {
  const auto aborts = static_cast<std::int64_t>(abort_rate * 1000);
  return {.commits = 1000 - aborts, .aborts = aborts};
}

TEST(ChangeByRate, FollowsAlgorithm7) {
  EXPECT_EQ(ChangeByRate(AdjustStrategy::kBinary, 0.5, 10, 1, 64, 0.05, 0.01), 1);
  EXPECT_EQ(ChangeByRate(AdjustStrategy::kBinary, 0.5, 64, 1, 64, 0.05, 0.01), 0);
  EXPECT_EQ(ChangeByRate(AdjustStrategy::kBinary, 0.03, 10, 1, 64, 0.05, 0.01), 0);
  EXPECT_EQ(ChangeByRate(AdjustStrategy::kBinary, 0, 10, 1, 64, 0.05, 0.01), -1);
  EXPECT_EQ(ChangeByRate(AdjustStrategy::kBinary, 0, 1, 1, 64, 0.05, 0.01), 0);
}

TEST(ChangeByRate, FollowsAlgorithm8) {
  EXPECT_EQ(ChangeByRate(AdjustStrategy::kLinear, 0.5, 10, 1, 64, 0.05, 0.01), 6);
  EXPECT_EQ(ChangeByRate(AdjustStrategy::kLinear, 0.5, 1, 1, 64, 0.05, 0.01), 1);
  EXPECT_EQ(ChangeByRate(AdjustStrategy::kLinear, 0.5, 60, 1, 64, 0.05, 0.01), 4);
  EXPECT_EQ(ChangeByRate(AdjustStrategy::kLinear, 0.009, 200, 1, 1024, 0.05, 0.01), -2);
  EXPECT_EQ(ChangeByRate(AdjustStrategy::kLinear, 0.009, 200, 199, 1024, 0.05, 0.01), -1);
}

TEST(ChangeByRate, FollowsAlgorithm9) {
  EXPECT_EQ(ChangeByRate(AdjustStrategy::kQuadratic, 0.5, 10, 1, 64, 0.05, 0.01), 26);
  EXPECT_EQ(ChangeByRate(AdjustStrategy::kQuadratic, 0.5, 40, 1, 64, 0.05, 0.01), 24);
  EXPECT_EQ(ChangeByRate(AdjustStrategy::kQuadratic, 0.009, 400, 1, 1024, 0.05, 0.01), -13);
}

TEST(DecideChange, WithoutAStrategyNothingChanges) {
  EXPECT_EQ(DecideChange(With(AdjustStrategy::kNone), Rate(1), {.records = 1, .amount = 100}), 0);
  EXPECT_FALSE(MayChange(With(AdjustStrategy::kNone), Rate(1), 1));
}

TEST(DecideChange, AColdValueShrinksToTheMinimumAndStays) {
  AdjustParameters parameters = With(AdjustStrategy::kLinear);
  parameters.nr_min = 2;
  RecordSet set{.records = 9, .amount = 1000};
  for (int round = 0; round < 20; ++round) set.records += DecideChange(parameters, {}, set);
  EXPECT_EQ(set.records, 2);
}

TEST(DecideChange, FewAbortsSayNothing) {
  const AdjustParameters parameters = With(AdjustStrategy::kLinear);
  EXPECT_EQ(DecideChange(parameters, {.commits = 1, .aborts = 2}, {.records = 1, .amount = 9}, 3), 0);
  EXPECT_EQ(DecideChange(parameters, {.commits = 1, .aborts = 3}, {.records = 1, .amount = 9}, 3), 1);
}

TEST(DecideChange, WaitingCountsLikeAborting) {
  const AdjustParameters parameters = With(AdjustStrategy::kLinear);
  // 31 wait for one that holds the only record.
  EXPECT_EQ(DecideChange(parameters, {.lock_waiters = 31}, {.records = 1, .amount = 9}), 1);
  EXPECT_EQ(DecideChange(parameters, {.lock_waiters = 16}, {.records = 16, .amount = 9}), 9);
  // One of 40 waits: between ar_min and ar_goal.
  EXPECT_EQ(DecideChange(parameters, {.lock_waiters = 1}, {.records = 40, .amount = 9}), 0);
  EXPECT_EQ(DecideChange(parameters, {.lock_waiters = 0.1}, {.records = 1, .amount = 9}), 0);
}

TEST(DecideChange, SlowResponsesAddRecordsByWhatIsAboveTheGoal) {
  AdjustParameters parameters = With(AdjustStrategy::kLinear);
  parameters.rt_goal_ms = 10;
  const RecordSet set{.records = 8, .amount = 1000};
  EXPECT_EQ(DecideChange(parameters, {.commits = 100, .response_ms = 20}, set), 5);
  // Not below rt_min, which is half of the goal: neither way.
  EXPECT_EQ(DecideChange(parameters, {.commits = 100, .response_ms = 6}, set), 0);
  EXPECT_EQ(DecideChange(parameters, {.commits = 100, .response_ms = 4}, set), -1);
  EXPECT_EQ(DecideChange(parameters, {.commits = 100}, set), -1) << "not measured: it does not hinder";
  parameters.rt_min_ms = 2;
  EXPECT_EQ(DecideChange(parameters, {.commits = 100, .response_ms = 4}, set), 0);
}

TEST(DecideChange, FastResponsesDoNotHideAborts) {
  AdjustParameters parameters = With(AdjustStrategy::kLinear);
  parameters.rt_goal_ms = 10;
  Observed observed = Rate(0.5);
  observed.response_ms = 1;
  EXPECT_EQ(DecideChange(parameters, observed, {.records = 4, .amount = 1000}), 3);
}

TEST(DecideChange, TheAverageAmountOfARecordIsKept) {
  AdjustParameters parameters = With(AdjustStrategy::kQuadratic);
  parameters.min_average_amount_per_record = 10;
  EXPECT_EQ(DecideChange(parameters, Rate(0.9), {.records = 10, .amount = 125}), 2);
  EXPECT_EQ(DecideChange(parameters, Rate(0.9), {.records = 12, .amount = 125}), 0);
  // The amount has fallen: at once down to the number of records that it is enough for, with any rate of aborts.
  EXPECT_EQ(DecideChange(parameters, Rate(0.9), {.records = 12, .amount = 35}), -9);
  EXPECT_EQ(DecideChange(parameters, Rate(0.9), {.records = 12, .amount = 0}), -11);
  EXPECT_TRUE(MayChange(parameters, Rate(0.03), 12)) << "only the amount can tell";
  EXPECT_FALSE(MayChange(parameters, Rate(0.03), 1));
  // Without a bound the amount has no meaning.
  EXPECT_EQ(DecideChange(parameters, Rate(0.9), {.records = 8, .amount = {}}), 52);
}

TEST(DecideChange, RecordsOutsideTheLimitsAreBroughtIn) {
  AdjustParameters parameters = With(AdjustStrategy::kLinear);
  parameters.nr_min = 4;
  parameters.nr_max = 8;
  EXPECT_EQ(DecideChange(parameters, Rate(0.03), {.records = 1, .amount = 100}), 3);
  EXPECT_EQ(DecideChange(parameters, Rate(0.9), {.records = 20, .amount = 100}), -12);
  EXPECT_TRUE(MayChange(parameters, Rate(0.03), 20));
}

TEST(DecideChange, NeverLeavesTheLimits) {
  std::mt19937 random(7);
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  for (int round = 0; round < 20000; ++round) {
    AdjustParameters parameters = With(static_cast<AdjustStrategy>(draw(1, 3)));
    parameters.nr_min = draw(1, 20);
    parameters.nr_max = parameters.nr_min + draw(0, 1000);
    parameters.min_average_amount_per_record = draw(0, 5);
    const Observed observed{.commits = draw(0, 100),
                            .aborts = draw(0, 100),
                            .response_ms = std::nullopt,
                            .lock_waiters = draw(0, 3) / 2.0};
    const RecordSet set{.records = draw(1, 1024), .amount = draw(0, 5000)};
    const std::int32_t after = set.records + DecideChange(parameters, observed, set);
    ASSERT_GE(after, parameters.nr_min);
    ASSERT_LE(after, parameters.nr_max);
    ASSERT_TRUE(after == set.records || MayChange(parameters, observed, set.records));
  }
}

TEST(IsAtRest, AnythingHeardOfItIsUnrest) {
  EXPECT_TRUE(IsAtRest({}));
  EXPECT_FALSE(IsAtRest({.commits = 1}));
  EXPECT_FALSE(IsAtRest({.aborts = 1}));
  EXPECT_FALSE(IsAtRest({.lock_waiters = 0.1}));
}

TEST(IsFresh, AWindowFromBeforeTheChangeSaysNothing) {
  EXPECT_TRUE(IsFresh(1000, 2000, std::nullopt));
  EXPECT_TRUE(IsFresh(1000, 2000, 900));
  EXPECT_TRUE(IsFresh(1000, 2000, 1010)) << "changed right after the window before was closed";
  EXPECT_FALSE(IsFresh(1000, 2000, 1500));
  EXPECT_FALSE(IsFresh(1000, 2000, 2001));
  EXPECT_TRUE(IsFresh(1000, 2000, 3'600'000)) << "the clock was set back since";
}

// The thesis's simulation (figures 21 and 22): `per_second` transactions begin at random within 995 ms, last
// 5 ms, and write one record each; one that meets a record which another has written and not yet committed is
// aborted.
Observed SimulateSecond(std::mt19937& random, int per_second, std::int32_t records) {
  std::vector<double> begins(static_cast<std::size_t>(per_second));
  std::uniform_real_distribution<double> begin_ms(0, 995);
  for (double& begin : begins) begin = begin_ms(random);
  std::sort(begins.begin(), begins.end());
  std::vector<double> held_until(static_cast<std::size_t>(records), -1);
  std::uniform_int_distribution<std::size_t> choose(0, held_until.size() - 1);
  Observed observed;
  for (const double begin : begins) {
    double& until = held_until[choose(random)];
    if (begin < until) {
      ++observed.aborts;
    } else {
      ++observed.commits;
      until = begin + 5;
    }
  }
  return observed;
}

// The seconds until the abort rate has been at most 6 % once; `seconds` if never. `most`: records at any
// time.
int SecondsToConverge(AdjustStrategy strategy, int per_second, int seconds, std::int32_t* most) {
  std::mt19937 random(42);
  AdjustParameters parameters = With(strategy);
  parameters.nr_max = 1024;
  RecordSet set{.records = 1, .amount = {}};
  *most = 1;
  for (int second = 0; second < seconds; ++second) {
    const Observed observed = SimulateSecond(random, per_second, set.records);
    if (AbortRate(observed) <= 0.06) return second;
    set.records += DecideChange(parameters, observed, set);
    *most = std::max(*most, set.records);
  }
  return seconds;
}

TEST(Convergence, LinearAndQuadraticAreQuickBinaryIsSlow) {
  std::int32_t binary_most = 0;
  std::int32_t linear_most = 0;
  std::int32_t quadratic_most = 0;
  const int binary = SecondsToConverge(AdjustStrategy::kBinary, 1000, 150, &binary_most);
  const int linear = SecondsToConverge(AdjustStrategy::kLinear, 1000, 150, &linear_most);
  const int quadratic = SecondsToConverge(AdjustStrategy::kQuadratic, 1000, 150, &quadratic_most);
  EXPECT_LT(quadratic, 15);
  EXPECT_LT(linear, 30);
  EXPECT_LT(quadratic, linear);
  EXPECT_GT(binary, 2 * linear);
  EXPECT_LE(linear_most, 110);  // about 90 are needed
}

TEST(Convergence, LinearStaysBetweenMinimumAndGoalAndFollowsTheLoad) {
  std::mt19937 random(1);
  AdjustParameters parameters = With(AdjustStrategy::kLinear);
  parameters.nr_max = 1024;
  RecordSet set{.records = 1, .amount = {}};
  const auto run = [&](int per_second, int seconds) {
    for (int second = 0; second < seconds; ++second) {
      set.records += DecideChange(parameters, SimulateSecond(random, per_second, set.records), set);
    }
    return set.records;
  };
  const std::int32_t at_1000 = run(1000, 75);
  EXPECT_GT(at_1000, 70);
  EXPECT_LT(at_1000, 160);
  EXPECT_GT(run(2000, 75), at_1000 * 3 / 2);
  EXPECT_EQ(run(0, 400), 1);
}

}  // namespace
}  // namespace psp::mrv
