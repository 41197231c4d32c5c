#include "semi_primary/hook_server/question_allowance.h"

#include <gtest/gtest.h>

namespace psp::sp {
namespace {

constexpr std::int64_t kSecondUs = 1'000'000;

TEST(QuestionAllowanceTest, ManyAtOnceThenFewASecond) {
  QuestionAllowance allowance;
  std::int64_t now_us = 5 * kSecondUs;
  for (int i = 0; i < QuestionAllowance::kAtOnce; ++i) ASSERT_TRUE(allowance.Allow(now_us)) << i;
  EXPECT_FALSE(allowance.Allow(now_us));
  now_us += kSecondUs;
  for (int i = 0; i < QuestionAllowance::kPerSecond; ++i) ASSERT_TRUE(allowance.Allow(now_us)) << i;
  EXPECT_FALSE(allowance.Allow(now_us));
}

TEST(QuestionAllowanceTest, WhatWasNotAskedIsNotSavedForEver) {
  QuestionAllowance allowance;
  ASSERT_TRUE(allowance.Allow(kSecondUs));
  const std::int64_t much_later_us = 1'000'000 * kSecondUs;
  std::int64_t allowed = 0;
  while (allowance.Allow(much_later_us)) ++allowed;
  EXPECT_EQ(allowed, QuestionAllowance::kAtOnce);
}

}  // namespace
}  // namespace psp::sp
