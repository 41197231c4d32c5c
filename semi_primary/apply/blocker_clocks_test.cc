#include "semi_primary/apply/blocker_clocks.h"

#include <gtest/gtest.h>

namespace psp::sp {
namespace {

constexpr std::int64_t kMs = 1000;
constexpr std::int64_t kGraceMs = 1000;
constexpr std::int64_t kLookEveryMs = 100;
constexpr std::int64_t kCommitMs = 3000;
constexpr std::int64_t kBatch = 77;

const Blocker kRoot = {.pid = 1, .xact_start = "noon", .state = "active", .is_root = true};
const Blocker kWaiting = {.pid = 1, .xact_start = "noon", .state = "active"};
const Blocker kInDeadlock = {
    .pid = 1, .xact_start = "noon", .state = "active", .is_root = true, .is_in_deadlock = true};

class BlockerClocksTest : public ::testing::Test {
 protected:
  // Looks regularly until `until_ms`, each time at the same; the times at which somebody's grace was over.
  std::vector<std::int64_t> LookUntil(std::int64_t until_ms, const std::vector<Blocker>& blockers,
                                      std::int64_t batch = kBatch) {
    std::vector<std::int64_t> over_ms;
    for (; now_ms_ <= until_ms; now_ms_ += kLookEveryMs) {
      for (const Blocker& blocker : clocks_.TakeOverdue(now_ms_ * kMs, batch, blockers)) {
        EXPECT_EQ(blocker.pid, 1);
        over_ms.push_back(now_ms_);
      }
    }
    return over_ms;
  }

  using Times = std::vector<std::int64_t>;
  std::int64_t now_ms_ = 0;
  BlockerClocks clocks_{
      {.grace_us = kGraceMs * kMs, .commit_us = kCommitMs * kMs, .look_every_us = kLookEveryMs * kMs}};
};

TEST_F(BlockerClocksTest, WhoIsStillThereIsToldApart) {
  const auto look = [&] { return clocks_.TakeOverdue(now_ms_ * kMs, kBatch, {kRoot}); };
  LookUntil(900, {kRoot});
  const auto first = look();
  ASSERT_EQ(first.size(), 1U);
  EXPECT_FALSE(first[0].again);
  now_ms_ += kLookEveryMs;
  LookUntil(1900, {kRoot});
  const auto second = look();
  ASSERT_EQ(second.size(), 1U);
  EXPECT_TRUE(second[0].again);
}

TEST_F(BlockerClocksTest, ARootIsEndedAfterTheGraceAndAfterTheNext) {
  EXPECT_EQ(LookUntil(2500, {kRoot}), (Times{1000, 2000}));
}

TEST_F(BlockerClocksTest, WhoWaitsIsNeverEndedAndHasTheWholeGraceWhenHeIsTheRoot) {
  EXPECT_EQ(LookUntil(900, {kRoot}), Times());
  EXPECT_EQ(LookUntil(5000, {kWaiting}), Times());
  EXPECT_EQ(LookUntil(6300, {kRoot}), (Times{6100}));
}

TEST_F(BlockerClocksTest, GivingWayForAMomentDoesNotHelp) {
  EXPECT_EQ(LookUntil(500, {kRoot}), Times());
  EXPECT_EQ(LookUntil(800, {}), Times());
  EXPECT_EQ(LookUntil(1200, {kRoot}), (Times{1000}));
}

TEST_F(BlockerClocksTest, TheNextBatchBeginsAnew) {
  EXPECT_EQ(LookUntil(900, {kRoot}), Times());
  EXPECT_EQ(LookUntil(2000, {kRoot}, kBatch + 1), (Times{2000}));
}

TEST_F(BlockerClocksTest, TheNextTransactionBeginsAnew) {
  Blocker next = kRoot;
  next.xact_start = "one";
  EXPECT_EQ(LookUntil(900, {kRoot}), Times());
  EXPECT_EQ(LookUntil(2000, {next}), (Times{2000}));
}

TEST_F(BlockerClocksTest, InADeadlockTheDetectorComesFirst) {
  EXPECT_EQ(LookUntil(2500, {kInDeadlock}), (Times{2000}));
}

TEST_F(BlockerClocksTest, WhoIsInTheHookHasTheTimeOfACommitWhileNoRequestIsKnown) {
  Blocker in_hook = kRoot;
  in_hook.is_committing = true;
  Blocker in_flight = in_hook;
  in_flight.is_root = false;
  EXPECT_EQ(LookUntil(3900, {in_hook}), Times());
  EXPECT_EQ(LookUntil(9900, {in_flight}), Times());
  EXPECT_EQ(LookUntil(14'500, {in_hook}), (Times{14'000}));
}

TEST_F(BlockerClocksTest, NobodyIsBlamedForABusyMachine) {
  EXPECT_EQ(LookUntil(400, {kRoot}), Times());
  now_ms_ = 60'000;  // 200 ms of them count
  EXPECT_EQ(LookUntil(61'000, {kRoot}), (Times{60'400}));
}

}  // namespace
}  // namespace psp::sp
