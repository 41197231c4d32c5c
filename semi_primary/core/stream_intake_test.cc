#include "semi_primary/core/stream_intake.h"

#include <gtest/gtest.h>

namespace psp::sp {
namespace {

using Verdict = StreamPosition::Verdict;

constexpr std::int64_t kSecondUs = 1'000'000;

TEST(StreamIntake, AGapIsAskedForOnceInAWhile) {
  StreamIntake stream;
  stream.Restart(1, 4);
  ASSERT_EQ(stream.Offer(8, 9), Verdict::kGap);
  EXPECT_TRUE(stream.MayRequestAgain(0));
  stream.OnRequested(0);
  EXPECT_FALSE(stream.MayRequestAgain(5 * kSecondUs));
  EXPECT_TRUE(stream.MayRequestAgain(5 * kSecondUs + 1));
  ASSERT_EQ(stream.Offer(4, 9), Verdict::kTake);
  stream.OnTaken();
  EXPECT_FALSE(stream.requested());
  EXPECT_EQ(stream.position(), 9);
}

TEST(StreamIntake, WhatIsMalformedIsAskedForAgainFromItsBeginning) {
  StreamIntake stream;
  stream.Restart(1, 4);
  stream.OnRequested(0);
  ASSERT_EQ(stream.Offer(4, 9), Verdict::kTake);
  stream.OnMalformed(4, "bad");
  EXPECT_EQ(stream.position(), 4);
  EXPECT_FALSE(stream.RetryIsDue(5 * kSecondUs));
  EXPECT_TRUE(stream.RetryIsDue(5 * kSecondUs + 1));
  ASSERT_EQ(stream.Offer(4, 9), Verdict::kTake);
  stream.OnTaken();
  EXPECT_FALSE(stream.has_failed());
}

TEST(StreamIntake, RestartGoesBackToW) {
  StreamIntake stream;
  EXPECT_FALSE(stream.has_started());
  stream.Restart(1, 9);
  stream.Restart(2, 5);
  EXPECT_TRUE(stream.has_started());
  EXPECT_EQ(stream.generation(), 2U);
  EXPECT_EQ(stream.position(), 5);
}

}  // namespace
}  // namespace psp::sp
