#include "semi_primary/apply/trigger_clock.h"

#include <gtest/gtest.h>

namespace psp::sp {
namespace {

constexpr std::int64_t kTimeoutUs = 1000;
constexpr std::int64_t kBatch = 77;
const std::string kPlain = "psp apply worker";
const std::string kFirst = "psp apply worker, triggers since 1";
const std::string kSecond = "psp apply worker, triggers since 2";

class TriggerClockTest : public ::testing::Test {
 protected:
  std::string Look(std::int64_t now_us, const std::string& name, std::int64_t batch = kBatch) {
    const TriggerClock::Overdue overdue = clock_.TakeOverdue(now_us, batch);
    clock_.Saw(now_us, batch, name);
    again_ = overdue.again;
    return overdue.name;
  }
  TriggerClock clock_{kTimeoutUs};
  bool again_ = false;  // of the last look
};

TEST_F(TriggerClockTest, TheTimeBeginsWhenTheNameIsSeen) {
  EXPECT_EQ(Look(5000, kFirst), "");
  EXPECT_EQ(Look(6000, kFirst), "");
  EXPECT_EQ(Look(6001, kFirst), kFirst);
  EXPECT_EQ(Look(6002, kFirst), "") << "its time begins again";
}

TEST_F(TriggerClockTest, EachEndDoublesTheTimeForAnHour) {
  Look(0, kFirst);
  EXPECT_EQ(Look(1001, kFirst), kFirst);
  EXPECT_EQ(Look(3001, kFirst), "")
      << "rows whose writing takes so long get through when they are tried again";
  EXPECT_EQ(Look(3002, kFirst), kFirst);
  EXPECT_EQ(Look(7002, kFirst), "");
  EXPECT_EQ(Look(7003, kFirst), kFirst);
  Look(7004, kPlain);
  constexpr std::int64_t kLaterUs = 3'600'010'000;
  EXPECT_EQ(Look(kLaterUs, kSecond), "");
  EXPECT_EQ(Look(kLaterUs + 1001, kSecond), kSecond);
}

TEST_F(TriggerClockTest, WhatTakesHoursGetsThrough) {
  std::int64_t now_us = 0;
  std::int64_t limit_us = kTimeoutUs;
  for (; limit_us < 7'200'000'000; limit_us *= 2) {
    Look(now_us, kFirst);
    ASSERT_EQ(Look(now_us + limit_us + 1, kFirst), kFirst) << limit_us;
    now_us += limit_us + 2;
  }
  Look(now_us, kFirst);
  EXPECT_EQ(Look(now_us + limit_us - 1, kFirst), "");
}

TEST_F(TriggerClockTest, EachStatementAndBatchHasItsOwnTime) {
  Look(0, kFirst);
  Look(900, kSecond);
  EXPECT_EQ(Look(1500, kSecond), "");
  EXPECT_EQ(Look(1600, kSecond, kBatch + 1), "");
  EXPECT_EQ(Look(2500, kSecond, kBatch + 1), "");
  EXPECT_EQ(Look(2601, kSecond, kBatch + 1), kSecond);
}

TEST_F(TriggerClockTest, WhatCatchesTheCancelIsKnown) {
  Look(0, kFirst);
  EXPECT_EQ(Look(1001, kFirst), kFirst);
  EXPECT_FALSE(again_);
  EXPECT_EQ(Look(3002, kFirst), kFirst);
  EXPECT_TRUE(again_);
  Look(3003, kSecond);
  EXPECT_EQ(Look(7004, kSecond), kSecond);
  EXPECT_FALSE(again_) << "another statement";
}

TEST_F(TriggerClockTest, WhatIsNoTriggerMayRunForEver) {
  Look(0, kPlain);
  EXPECT_EQ(Look(1'000'000, kPlain), "");
}

}  // namespace
}  // namespace psp::sp
