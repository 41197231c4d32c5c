#include "semi_primary/submit/commit_times.h"

#include <gtest/gtest.h>

namespace psp::sp {
namespace {

TEST(CommitTimes, ThePartsAreAllOfTheTime) {
  CommitTimes times;
  times.OnDecided(
      {.arrived_us = 100, .sent_us = 130, .decided_us = 1'130, .queue_us = 200, .certify_us = 300});
  EXPECT_DOUBLE_EQ(times.check.sum(), 30e-6);
  EXPECT_DOUBLE_EQ(times.queue.sum(), 200e-6);
  EXPECT_DOUBLE_EQ(times.certify.sum(), 300e-6);
  EXPECT_DOUBLE_EQ(times.network.sum(), 500e-6);
  times.OnAnswered(100, 1'130, true, 1'200);
  EXPECT_DOUBLE_EQ(times.answer.sum(), 70e-6);
  EXPECT_DOUBLE_EQ(times.committed.sum(), 1'100e-6);
}

TEST(CommitTimes, ThePrimaryHadItForLongerThanItWasAway) {
  CommitTimes times;
  times.OnDecided({.arrived_us = 0, .sent_us = 100, .decided_us = 300, .queue_us = 150, .certify_us = 5'000});
  EXPECT_DOUBLE_EQ(times.queue.sum() + times.certify.sum(), 200e-6);
  EXPECT_DOUBLE_EQ(times.network.sum(), 0);
  times.OnDecided({.arrived_us = 0, .sent_us = 100, .decided_us = 300, .queue_us = -1, .certify_us = -1});
  EXPECT_DOUBLE_EQ(times.network.sum(), 200e-6);
}

TEST(CommitTimes, WithoutADecisionOnlyTheWholeIsKnown) {
  CommitTimes times;
  times.OnAnswered(100, 0, false, 300);
  EXPECT_DOUBLE_EQ(times.aborted.sum(), 200e-6);
  EXPECT_EQ(times.answer.counts(), Histogram::OfTimes().counts());
}

}  // namespace
}  // namespace psp::sp
