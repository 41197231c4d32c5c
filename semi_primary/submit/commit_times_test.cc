#include "semi_primary/submit/commit_times.h"

#include <gtest/gtest.h>

namespace psp::sp {
namespace {

constexpr std::int64_t kSecond = 1'000'000;

TEST(CommitTimes, ThePartsAreAllOfTheTime) {
  CommitTimes times;
  times.OnAnswered({.arrived_us = 100,
                    .sent_us = 130,
                    .decided_us = 1'130,
                    .parked_us = 150,
                    .queue_us = 200,
                    .certify_us = 300},
                   true, 1'200);
  EXPECT_DOUBLE_EQ(times.check.sum(), 30e-6);
  EXPECT_DOUBLE_EQ(times.parked.sum(), 150e-6);
  EXPECT_DOUBLE_EQ(times.queue.sum(), 50e-6);
  EXPECT_DOUBLE_EQ(times.certify.sum(), 300e-6);
  EXPECT_DOUBLE_EQ(times.network.sum(), 500e-6);
  EXPECT_DOUBLE_EQ(times.answer.sum(), 70e-6);
  EXPECT_DOUBLE_EQ(times.committed.sum(), 1'100e-6);
  const CommitSums recent = times.recent.Sums(1'200);
  EXPECT_EQ(recent.commits, 1);
  EXPECT_EQ(recent.parts.Whole(), 1'100);
}

TEST(CommitTimes, ThePrimaryHadItForLongerThanItWasAway) {
  CommitTiming timing{
      .sent_us = 100, .decided_us = 300, .parked_us = 900, .queue_us = 150, .certify_us = 5'000};
  CommitParts parts = PartsOf(timing, 300);
  EXPECT_EQ(parts.parked_us, 150);
  EXPECT_EQ(parts.queue_us, 0);
  EXPECT_EQ(parts.certify_us, 50);
  EXPECT_EQ(parts.network_us, 0);
  EXPECT_EQ(parts.Whole(), 300);
  timing = {.sent_us = 100, .decided_us = 300, .parked_us = -1, .queue_us = -1, .certify_us = -1};
  parts = PartsOf(timing, 300);
  EXPECT_EQ(parts.network_us, 200);
  EXPECT_EQ(parts.Whole(), 300);
}

TEST(CommitTimes, WithoutADecisionOnlyTheWholeIsKnown) {
  CommitTimes times;
  times.OnAnswered({.arrived_us = 100}, false, 300);
  EXPECT_DOUBLE_EQ(times.aborted.sum(), 200e-6);
  EXPECT_EQ(times.answer.counts(), Histogram::OfTimes().counts());
  EXPECT_EQ(times.recent.Sums(300).commits, 0);
}

TEST(RecentCommits, AreThoseOfAboutAMinute) {
  RecentCommits recent;
  recent.Add({.check_us = 1}, 1'000 * kSecond);
  recent.Add({.network_us = 20}, 1'030 * kSecond);
  EXPECT_EQ(recent.Sums(1'060 * kSecond).commits, 2);
  EXPECT_EQ(recent.Sums(1'060 * kSecond).parts.Whole(), 21);
  EXPECT_EQ(recent.Sums(1'070 * kSecond).parts.Whole(), 20);
  recent.Add({.answer_us = 300}, 1'070 * kSecond);
  EXPECT_EQ(recent.Sums(1'070 * kSecond).parts.Whole(), 320);
  EXPECT_EQ(recent.Sums(5'000 * kSecond).commits, 0);
}

TEST(RecentCommits, NinetyNineOfAHundredTookNoLonger) {
  RecentCommits recent;
  EXPECT_EQ(recent.Sums(0).p99_us, 0);
  for (int i = 0; i < 198; ++i) recent.Add({.check_us = 1'000 + i}, kSecond);
  for (int i = 0; i < 2; ++i) recent.Add({.check_us = 50'000}, kSecond);
  EXPECT_GE(recent.Sums(kSecond).p99_us, 1'197);
  EXPECT_LE(recent.Sums(kSecond).p99_us, 1'197 * 9 / 8);
  recent.Add({.check_us = 50'000}, 11 * kSecond);  // the third one of 201
  EXPECT_GE(recent.Sums(11 * kSecond).p99_us, 50'000);
  EXPECT_LE(recent.Sums(11 * kSecond).p99_us, 50'000 * 9 / 8);
  EXPECT_GE(recent.Sums(71 * kSecond).p99_us, 50'000);  // of the younger slot only
  EXPECT_EQ(recent.Sums(100 * kSecond).p99_us, 0);
}

TEST(RecentCommits, APercentileIsAnEighthTooLargeAtMost) {
  for (std::int64_t us : {0, 1, 7, 8, 9, 15, 16, 17, 1'023, 1'024, 999'999, 60'000'000}) {
    RecentCommits recent;
    recent.Add({.check_us = us}, 0);
    const std::int64_t told = recent.Sums(0).p99_us;
    EXPECT_GT(told, us);
    EXPECT_LE(told, us + us / 8 + 1) << us;
  }
  RecentCommits recent;
  recent.Add({.check_us = INT64_MAX / 2}, 0);
  recent.Add({.check_us = -5}, 0);
  EXPECT_GE(recent.Sums(0).p99_us, 120 * kSecond);
}

}  // namespace
}  // namespace psp::sp
