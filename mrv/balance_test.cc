#include "mrv/balance.h"

#include <gtest/gtest.h>

namespace psp::mrv {
namespace {

constexpr double kTolerance = 0.2;

TEST(IsUneven, OneRecordNeverIs) {
  EXPECT_FALSE(IsUneven({.records = 1, .total = 10, .smallest = 10, .largest = 10, .unit = 1}, kTolerance));
}

TEST(IsUneven, ComparesWithTheMean) {
  EXPECT_TRUE(IsUneven({.records = 4, .total = 400, .smallest = 0, .largest = 400, .unit = 1}, kTolerance));
  EXPECT_FALSE(IsUneven({.records = 4, .total = 400, .smallest = 95, .largest = 105, .unit = 1}, kTolerance));
  EXPECT_TRUE(IsUneven({.records = 4, .total = 400, .smallest = 85, .largest = 115, .unit = 1}, kTolerance));
  // No lower bound: amounts may be negative.
  EXPECT_TRUE(IsUneven({.records = 2, .total = -400, .smallest = -400, .largest = 0, .unit = 1}, kTolerance));
}

TEST(IsUneven, WhatNoDivisionEvensOutIsEven) {
  // 3 over 5 records: 1, 1, 1, 0, 0.
  EXPECT_FALSE(IsUneven({.records = 5, .total = 3, .smallest = 0, .largest = 1, .unit = 1}, kTolerance));
  EXPECT_TRUE(IsUneven({.records = 5, .total = 3, .smallest = 0, .largest = 2, .unit = 1}, kTolerance));
  EXPECT_FALSE(
      IsUneven({.records = 5, .total = 0.03, .smallest = 0, .largest = 0.01, .unit = 0.01}, kTolerance));
  EXPECT_FALSE(IsUneven({.records = 5, .total = 0, .smallest = 0, .largest = 0, .unit = 0}, kTolerance));
}

TEST(IsUnevennessHarmful, WithoutABoundOnlyNearTheMostOfARecord) {
  const Amounts uneven{.records = 4, .total = -60, .smallest = -60, .largest = 0, .unit = 1};
  EXPECT_TRUE(IsUnevennessHarmful(uneven, true, std::nullopt));
  EXPECT_FALSE(IsUnevennessHarmful(uneven, false, std::nullopt));
  EXPECT_FALSE(IsUnevennessHarmful(uneven, false, 1000));
  EXPECT_TRUE(IsUnevennessHarmful(uneven, false, 100));
}

TEST(BalanceSteps, DependOnTheStrategy) {
  const Amounts uneven{.records = 9, .total = 900, .smallest = 0, .largest = 900, .unit = 1};
  EXPECT_EQ(BalanceSteps(BalanceStrategy::kNone, uneven, kTolerance), 0);
  EXPECT_EQ(BalanceSteps(BalanceStrategy::kAll, uneven, kTolerance), 1);
  EXPECT_EQ(BalanceSteps(BalanceStrategy::kRandom, uneven, kTolerance), 4);
  EXPECT_EQ(BalanceSteps(BalanceStrategy::kMinAndMax, uneven, kTolerance), 4);
  const Amounts even{.records = 9, .total = 900, .smallest = 100, .largest = 100, .unit = 1};
  EXPECT_EQ(BalanceSteps(BalanceStrategy::kRandom, even, kTolerance), 0);
}

TEST(GoOn, APairThatWasEvenSaysNothingAboutTheNext) {
  EXPECT_TRUE(MayContinue(BalanceStrategy::kRandom, 0));
  EXPECT_FALSE(MayContinue(BalanceStrategy::kMinAndMax, 0));
  EXPECT_TRUE(MayContinue(BalanceStrategy::kMinAndMax, 2));
}

TEST(BalanceStrategyOf, KnowsTheNames) {
  EXPECT_EQ(BalanceStrategyOf("all"), BalanceStrategy::kAll);
  EXPECT_EQ(BalanceStrategyOf("random"), BalanceStrategy::kRandom);
  EXPECT_EQ(BalanceStrategyOf("minmax"), BalanceStrategy::kMinAndMax);
  EXPECT_EQ(BalanceStrategyOf("none"), BalanceStrategy::kNone);
}

}  // namespace
}  // namespace psp::mrv
