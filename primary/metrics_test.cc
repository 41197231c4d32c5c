#include "primary/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace psp::primary {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(PrimaryMetrics, AStandstillHasItsCause) {
  PrimaryNumbers numbers;
  EXPECT_THAT(PrimaryMetrics(numbers), HasSubstr("psp_can_decide 1\n"));
  numbers.core.standstill = Standstill::Cause::kStandby;
  numbers.core.standstill_us = 2'500'000;
  const std::string text = PrimaryMetrics(numbers);
  EXPECT_THAT(text, HasSubstr("psp_can_decide 0\n"));
  EXPECT_THAT(text, HasSubstr("psp_standstill{cause=\"standby\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("psp_standstill{cause=\"no answer\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("psp_standstill_seconds 2.5\n"));
}

TEST(PrimaryMetrics, ASemiPrimarysNameIsALabel) {
  PrimaryNumbers numbers;
  numbers.core.semi_primaries = {
      {.name = "a\"b", .is_connected = true, .lacks = 5, .outcomes = {.committed = 7}}, {.name = "joins"}};
  const std::string text = PrimaryMetrics(numbers);
  EXPECT_THAT(text, HasSubstr("psp_semi_primary_connected{sp=\"a\\\"b\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("psp_decisions_total{sp=\"a\\\"b\",outcome=\"committed\"} 7\n"));
  EXPECT_THAT(text, HasSubstr("psp_semi_primary_unacknowledged_transactions{sp=\"a\\\"b\"} 5\n"));
  EXPECT_THAT(text, Not(HasSubstr("psp_semi_primary_unacknowledged_transactions{sp=\"joins\"}")));
}

TEST(PrimaryMetrics, TheLogIsShownOnceItWasLookedAt) {
  PrimaryNumbers numbers;
  EXPECT_THAT(PrimaryMetrics(numbers), Not(HasSubstr("\npsp_log_bytes ")));
  numbers.core.log = {8192, 1500};
  EXPECT_THAT(PrimaryMetrics(numbers), HasSubstr("psp_log_bytes 8192\n"));
  EXPECT_THAT(PrimaryMetrics(numbers), HasSubstr("psp_log_oldest_seconds 1.5\n"));
}

TEST(PrimaryIllness, HasNoneOfPostgreSqlsWords) {
  EXPECT_EQ(PrimaryIllness(std::nullopt, false), "");
  EXPECT_EQ(PrimaryIllness(Standstill::Reason{Standstill::Cause::kNoAnswer, "FATAL: secret", 0}, false),
            "the primary can decide nothing: no answer");
  EXPECT_EQ(PrimaryIllness(std::nullopt, true), "psp-primary is stopping");
}

}  // namespace
}  // namespace psp::primary
