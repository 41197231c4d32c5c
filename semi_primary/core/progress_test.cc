#include "semi_primary/core/progress.h"

#include <gtest/gtest.h>

namespace psp::sp {
namespace {

TEST(Progress, OnlyWhatIsDurableIsAcknowledgedAndAgainAfterWelcome) {
  Progress progress(0);
  EXPECT_EQ(progress.TakeAck(0), std::nullopt);
  progress.OnApplied(0, 0, 0);
  EXPECT_EQ(progress.TakeAck(0), 0);
  progress.OnApplied(9, 5, 0);
  EXPECT_EQ(progress.TakeAck(0), 5);
  progress.OnApplied(10, 5, 0);
  EXPECT_EQ(progress.TakeAck(0), std::nullopt);
  progress.OnWelcome(10);
  EXPECT_EQ(progress.TakeAck(0), 5);
}

TEST(Progress, WhatAStandbyMayLackIsAcknowledgedLater) {
  Progress progress(0, 100);
  progress.OnApplied(5, 5, 1000);
  progress.OnApplied(7, 7, 1050);
  EXPECT_EQ(progress.TakeAck(1099), std::nullopt);
  EXPECT_EQ(progress.TakeAck(1100), 5);
  EXPECT_EQ(progress.TakeAck(1149), std::nullopt);
  EXPECT_EQ(progress.TakeAck(1150), 7);
  progress.OnWelcome(7);
  EXPECT_EQ(progress.TakeAck(1150), 7) << "it may have been lost with the connection";
}

TEST(Progress, CatchingUpEndsWhereThePrimaryWasAtWelcome) {
  Progress progress(3);
  progress.OnWelcome(10);
  progress.OnClosed(20);
  progress.OnApplied(9, 9, 0);
  EXPECT_FALSE(progress.has_caught_up());
  progress.OnApplied(10, 9, 0);
  EXPECT_TRUE(progress.has_caught_up());
  progress.OnApplyStarted(10);
  EXPECT_FALSE(progress.has_caught_up()) << "a crash: now up to where the primary is";
}

TEST(Progress, LagIsTheAgeOfTheOldestPartThatIsNotApplied) {
  Progress progress(0);
  EXPECT_EQ(progress.LagMs(1'000'000), 0);
  progress.OnClosed(9);
  progress.OnTaken(5, 1'000'000);
  progress.OnTaken(9, 2'000'000);
  EXPECT_EQ(progress.LagMs(3'000'000), 2000);
  progress.OnApplied(5, 0, 0);
  EXPECT_EQ(progress.LagMs(3'000'000), 1000) << "under a load there is always a part that is not applied";
  progress.OnApplied(9, 0, 0);
  EXPECT_EQ(progress.LagMs(3'000'000), 0);
}

TEST(Progress, NothingLagsWhenTheStreamBeginsAgain) {
  Progress progress(0);
  progress.OnTaken(5, 1'000'000);
  progress.OnApplyStarted(3);
  EXPECT_EQ(progress.LagMs(3'000'000), 0);
}

}  // namespace
}  // namespace psp::sp
