#include "primary/certify/batch_trouble.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace psp::primary {
namespace {

using Step = BatchTrouble::Step;

Batch Of(int items, GlobalT global_t = 7) {
  Batch batch;
  for (int i = 0; i < items; ++i) {
    batch.items.push_back(
        {std::make_shared<CertifyRequest>(), global_t > 0 ? global_t + i : 0, "", std::nullopt, ""});
  }
  return batch;
}

PgError Error(const std::string& sqlstate, PgReaction reaction = PgReaction::kAbort) {
  return {reaction, sqlstate, "failed"};
}

std::vector<Step> Steps(const std::string& sqlstate, CertifyBy by, const Batch& batch, int count) {
  BatchTrouble trouble;
  std::vector<Step> steps;
  for (int i = 0; i < count; ++i) {
    steps.push_back(trouble.Next(Error(sqlstate), by, batch));
    if (steps.back() == Step::kBySql) by = CertifyBy::kSql;
  }
  return steps;
}

TEST(BatchTroubleTest, TheTransactionsOwnErrorFindsItAtOnce) {
  for (const CertifyBy by : {CertifyBy::kSql, CertifyBy::kModule}) {
    EXPECT_EQ(Steps("22021", by, Of(2), 1), std::vector{Step::kInHalves});
    EXPECT_EQ(Steps("54000", by, Of(1), 1), std::vector{Step::kRefuse});
  }
}

TEST(BatchTroubleTest, AnErrorThatComesAgainGoesToSqlThenAloneThenIsRefused) {
  const std::vector<Step> alone = {Step::kWaitAndAgain, Step::kWaitAndAgain, Step::kBySql,
                                   Step::kWaitAndAgain, Step::kWaitAndAgain, Step::kRefuse};
  EXPECT_EQ(Steps("XX000", CertifyBy::kModule, Of(1), 6), alone);
  std::vector<Step> several = alone;
  several.back() = Step::kInHalves;
  EXPECT_EQ(Steps("XX000", CertifyBy::kModule, Of(2), 6), several);
}

TEST(BatchTroubleTest, WhatIsRecordedAsAbortedIsNeverRefused) {
  EXPECT_EQ(Steps("XX000", CertifyBy::kSql, Of(1, 0), 4), std::vector(4, Step::kWaitAndAgain));
}

TEST(BatchTroubleTest, WhatMayPassIsWaitedFor) {
  for (const char* sqlstate : {"53100", "57014", "40001"})
    EXPECT_EQ(Steps(sqlstate, CertifyBy::kModule, Of(1), 10), std::vector(10, Step::kWaitAndAgain));
}

TEST(BatchTroubleTest, AMissingRightDecidesNothing) {
  for (const char* sqlstate : {"42501", "42883", "42P01", ""}) {
    EXPECT_EQ(Steps(sqlstate, CertifyBy::kSql, Of(1), 10), std::vector(10, Step::kWaitAndAgain)) << sqlstate;
    EXPECT_EQ(Steps(sqlstate, CertifyBy::kModule, Of(1), 1), std::vector{Step::kBySql}) << sqlstate;
  }
}

TEST(BatchTroubleTest, ALostSessionIsNoErrorOfTheBatch) {
  BatchTrouble trouble;
  for (const PgReaction reaction : {PgReaction::kRetry, PgReaction::kReconnect, PgReaction::kInDoubt})
    EXPECT_EQ(trouble.Next(Error("XX000", reaction), CertifyBy::kModule, Of(1)), Step::kAgain);
}

}  // namespace
}  // namespace psp::primary
