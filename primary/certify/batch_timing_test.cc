#include "primary/certify/batch_timing.h"

#include <gtest/gtest.h>

namespace psp::primary {
namespace {

constexpr std::int64_t kSecond = 1'000'000;

class BatchTimingTest : public testing::Test {
 protected:
  // So many transactions of the semi-primary, one after the other.
  void Arrivals(SpId sp_id, int count, std::int64_t gap_us) {
    for (int i = 0; i < count; ++i) timing_.OnArrival(sp_id, false, now_us_ += gap_us);
  }
  std::int64_t wait_us() const { return timing_.may_go_us() - now_us_; }

  RoundTrips round_trips_;
  BatchTiming timing_{5'000, round_trips_};
  std::int64_t now_us_ = kSecond;
};

TEST_F(BatchTimingTest, ATransactionWaitsAPartOfItsRoundTrip) {
  round_trips_.Set(1, 30'000);
  round_trips_.Set(2, 190'000);
  Arrivals(1, 100, 1'000);
  EXPECT_EQ(wait_us(), 2'000);
  Arrivals(2, 1, 1'000);
  EXPECT_EQ(wait_us(), 5'000) << "and batch_wait_max at most";
}

TEST_F(BatchTimingTest, NobodyWaitsWhereNobodyIsExpected) {
  round_trips_.Set(1, 30'000);
  Arrivals(1, 100, 30'000);
  EXPECT_EQ(wait_us(), 0);
}

TEST_F(BatchTimingTest, WhoIsNearDoesNotWaitAndTakesTheOthersAlong) {
  round_trips_.Set(1, 30'000);
  round_trips_.Set(2, 14'000);
  Arrivals(1, 100, 100);
  timing_.OnArrival(2, true, now_us_ += 100);
  EXPECT_EQ(wait_us(), 0);
}

TEST_F(BatchTimingTest, WhoComesLaterMakesNobodyWaitForLonger) {
  round_trips_.Set(1, 30'000);
  round_trips_.Set(2, 190'000);
  Arrivals(1, 100, 1'000);
  timing_.OnArrival(2, true, now_us_ += 500);
  EXPECT_EQ(wait_us(), 1'500);
}

TEST_F(BatchTimingTest, WithoutAKnownRoundTripNobodyWaits) {
  Arrivals(1, 100, 1'000);
  EXPECT_EQ(wait_us(), 0);
  round_trips_.Set(1, 30'000);
  round_trips_.Forget(1);
  Arrivals(1, 100, 1'000);
  EXPECT_EQ(wait_us(), 0);
}

TEST_F(BatchTimingTest, AfterAPauseItLearnsAgain) {
  round_trips_.Set(1, 30'000);
  Arrivals(1, 100, 1'000);
  Arrivals(1, 1, 3600 * kSecond);
  EXPECT_EQ(wait_us(), 0);
  Arrivals(1, 100, 1'000);
  EXPECT_EQ(wait_us(), 2'000);
}

}  // namespace
}  // namespace psp::primary
