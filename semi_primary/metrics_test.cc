#include "semi_primary/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace psp::sp {
namespace {

using testing::HasSubstr;

TEST(SemiPrimaryMetrics, TheStateIsASeriesOfOnes) {
  SemiPrimaryNumbers numbers;
  numbers.core.status.state = "blocked";
  const std::string text = SemiPrimaryMetrics(numbers);
  EXPECT_THAT(text, HasSubstr("psp_state{state=\"blocked\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("psp_state{state=\"streaming\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("psp_can_commit 0\n"));
}

TEST(SemiPrimaryMetrics, LossesHaveTheirKinds) {
  SemiPrimaryNumbers numbers;
  numbers.core.losses[proto::LOSS_UNIQUE_VALUE] = 7;
  numbers.core.losses[proto::LOSS_ROW] = 2;
  const std::string text = SemiPrimaryMetrics(numbers);
  EXPECT_THAT(text, HasSubstr("psp_losses_total{kind=\"unique_value\"} 7\n"));
  EXPECT_THAT(text, HasSubstr("psp_losses_total{kind=\"row\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("psp_losses_total{kind=\"schema_change\"} 0\n"));
}

TEST(SemiPrimaryMetrics, BaseUnits) {
  SemiPrimaryNumbers numbers;
  numbers.core.status.watermark = 10;
  numbers.core.status.closed_t = 14;
  numbers.core.status.lag_ms = 250;
  numbers.core.status.rtt_ms = 0.5;
  numbers.core.times.committed.Add(3'000);
  const std::string text = SemiPrimaryMetrics(numbers);
  EXPECT_THAT(text, HasSubstr("psp_apply_lag_transactions 4\n"));
  EXPECT_THAT(text, HasSubstr("psp_apply_lag_seconds 0.25\n"));
  EXPECT_THAT(text, HasSubstr("psp_round_trip_seconds 0.0005\n"));
  EXPECT_THAT(text, HasSubstr("psp_commit_seconds_sum{outcome=\"committed\"} 0.003\n"));
}

}  // namespace
}  // namespace psp::sp
