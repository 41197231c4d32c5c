#include "benchmarks/geo/segment_queue.h"

#include <gtest/gtest.h>

namespace psp::geo {
namespace {

using std::chrono::milliseconds;

TEST(LinkTest, DelaysWithoutBandwidthLimit) {
  Link link(milliseconds(15), 0);
  const Time start = Time() + milliseconds(1000);
  EXPECT_EQ(link.Arrival(start, 1'000'000), start + milliseconds(15));
  EXPECT_EQ(link.Arrival(start, 1'000'000), start + milliseconds(15));
}

TEST(LinkTest, BandwidthQueuesBytesBehindEarlierOnes) {
  Link link(milliseconds(10), 1000);  // one byte takes a millisecond
  const Time start = Time() + milliseconds(1000);
  EXPECT_EQ(link.Arrival(start, 5), start + milliseconds(15));
  EXPECT_EQ(link.Arrival(start, 5), start + milliseconds(20));
  EXPECT_EQ(link.Arrival(start + milliseconds(50), 1), start + milliseconds(61));
}

TEST(SegmentQueueTest, KeepsOrderAndKnowsWhenItIsFull) {
  Link link(milliseconds(1), 0);
  SegmentQueue queue(link, 5);
  queue.Push(Time(), Segment::Kind::kData, "abc");
  EXPECT_FALSE(queue.Full());
  queue.Push(Time(), Segment::Kind::kData, "de");
  queue.Push(Time(), Segment::Kind::kEnd);
  EXPECT_TRUE(queue.Full());
  EXPECT_EQ(queue.segments().front().data, "abc");
  queue.Pop();
  EXPECT_FALSE(queue.Full());
  EXPECT_EQ(queue.segments().front().data, "de");
  queue.Pop();
  EXPECT_EQ(queue.segments().front().kind, Segment::Kind::kEnd);
  queue.Pop();
  EXPECT_TRUE(queue.Empty());
}

}  // namespace
}  // namespace psp::geo
