#include "primary/core/housework_schedule.h"

#include <gtest/gtest.h>

namespace psp::primary {
namespace {

constexpr std::int64_t kSecondUs = 1'000'000;

TEST(HouseworkSchedule, EachWorkHasItsInterval) {
  HouseworkSchedule schedule({kSecondUs, 3 * kSecondUs, 5 * kSecondUs});
  int ticks = 0;
  int truncations = 0;
  int sweeps = 0;
  for (std::int64_t now_us = 0; now_us < 15 * kSecondUs; now_us += 250'000) {
    const auto due = schedule.TakeDue(now_us);
    if (!due) continue;
    ++ticks;
    truncations += due->truncate_log ? 1 : 0;
    sweeps += due->sweep ? 1 : 0;
  }
  EXPECT_EQ(ticks, 15);
  EXPECT_EQ(truncations, 5);
  EXPECT_EQ(sweeps, 3);
}

TEST(HouseworkSchedule, WhereThereIsMoreTheNextPieceFollowsSoon) {
  HouseworkSchedule schedule({kSecondUs, 10 * kSecondUs, 10 * kSecondUs});
  ASSERT_TRUE(schedule.TakeDue(0));
  schedule.OnReport(false, true, 1000);
  EXPECT_FALSE(schedule.TakeDue(100'999));
  const auto due = schedule.TakeDue(101'000);
  ASSERT_TRUE(due);
  EXPECT_TRUE(due->sweep);
  EXPECT_FALSE(due->truncate_log);
}

TEST(HouseworkSchedule, AReportWithoutMoreChangesNothing) {
  HouseworkSchedule schedule({kSecondUs, 10 * kSecondUs, 10 * kSecondUs});
  ASSERT_TRUE(schedule.TakeDue(0));
  schedule.OnReport(false, false, 1000);
  EXPECT_FALSE(schedule.TakeDue(kSecondUs - 1));
  EXPECT_TRUE(schedule.TakeDue(kSecondUs));
}

}  // namespace
}  // namespace psp::primary
