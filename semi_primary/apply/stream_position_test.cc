#include "semi_primary/apply/stream_position.h"

#include <gtest/gtest.h>

namespace psp::sp {
namespace {

using Verdict = StreamPosition::Verdict;

TEST(StreamPositionTest, TakesInOrderOnly) {
  StreamPosition position(10);
  EXPECT_EQ(position.Offer(10, 12), Verdict::kTake);
  EXPECT_EQ(position.Offer(10, 12), Verdict::kOld);
  EXPECT_EQ(position.Offer(13, 14), Verdict::kGap);
  EXPECT_EQ(position.Offer(11, 14), Verdict::kGap);  // overlaps
  EXPECT_EQ(position.position(), 12);
  EXPECT_EQ(position.Offer(12, 12), Verdict::kTake);
  EXPECT_EQ(position.Offer(12, 14), Verdict::kTake);
  position.Reset(5);
  EXPECT_EQ(position.Offer(14, 15), Verdict::kGap);
  EXPECT_EQ(position.Offer(5, 15), Verdict::kTake);
}

TEST(StreamPositionTest, BackwardRangeIsNotTaken) {
  StreamPosition position(10);
  EXPECT_EQ(position.Offer(10, 9), Verdict::kOld);
  EXPECT_EQ(position.position(), 10);
}

}  // namespace
}  // namespace psp::sp
