#include "semi_primary/apply/apply_meter.h"

#include <gtest/gtest.h>

namespace psp::sp {
namespace {

ApplyStep Step(GlobalT closed_t, std::size_t transactions) {
  ApplyStep step;
  step.closed_t = closed_t;
  step.transactions.resize(transactions);
  return step;
}

TEST(ApplyMeter, ABatchEndsWhenAllOfItIsApplied) {
  ApplyMeter meter;
  meter.OnSteps({Step(11, 2), Step(13, 1)}, 1'000);
  meter.OnProgress(12, 2'000);  // a part of it
  EXPECT_EQ(meter.numbers().transactions, 0U);
  meter.OnProgress(13, 4'000);
  meter.OnProgress(13, 9'000);  // told again: it has become durable
  EXPECT_EQ(meter.numbers().transactions, 3U);
  EXPECT_DOUBLE_EQ(meter.numbers().batch_seconds.sum(), 3'000e-6);
  EXPECT_DOUBLE_EQ(meter.numbers().batch_transactions.sum(), 3);
}

TEST(ApplyMeter, PartsOfACopyAreNoBatches) {
  ApplyMeter meter;
  meter.OnSteps({Step(11, 0)}, 1'000);
  meter.OnProgress(11, 2'000);
  EXPECT_DOUBLE_EQ(meter.numbers().batch_seconds.sum(), 0);
}

}  // namespace
}  // namespace psp::sp
