#include "semi_primary/hook_server/question_allowance.h"

#include <gtest/gtest.h>

namespace psp::sp {
namespace {

constexpr std::int64_t kSecondUs = 1'000'000;
constexpr std::uint32_t kRole = 10;

std::int64_t AllowedNow(QuestionAllowance* allowance, std::uint32_t role, std::int64_t now_us) {
  std::int64_t allowed = 0;
  while (allowance->Allow(role, now_us)) ++allowed;
  return allowed;
}

TEST(QuestionAllowanceTest, ManyAtOnceThenFewASecond) {
  QuestionAllowance allowance;
  EXPECT_EQ(AllowedNow(&allowance, kRole, 5 * kSecondUs), QuestionAllowance::kAtOnceOfRole);
  EXPECT_EQ(AllowedNow(&allowance, kRole, 6 * kSecondUs), QuestionAllowance::kPerSecondOfRole);
}

TEST(QuestionAllowanceTest, ARoleLeavesOthersTheirs) {
  QuestionAllowance allowance;
  for (const std::uint32_t role : {kRole, kRole + 1, kRole + 2})
    EXPECT_EQ(AllowedNow(&allowance, role, kSecondUs), QuestionAllowance::kAtOnceOfRole);
}

TEST(QuestionAllowanceTest, AllRolesTogetherHaveABound) {
  QuestionAllowance allowance;
  std::int64_t allowed = 0;
  for (std::uint32_t role = 0; role < 2000; ++role) allowed += AllowedNow(&allowance, role, kSecondUs);
  EXPECT_EQ(allowed, QuestionAllowance::kAtOnce);
}

TEST(QuestionAllowanceTest, WhatWasNotAskedIsNotSavedForEver) {
  QuestionAllowance allowance;
  ASSERT_TRUE(allowance.Allow(kRole, kSecondUs));
  EXPECT_EQ(AllowedNow(&allowance, kRole, 1'000'000 * kSecondUs), QuestionAllowance::kAtOnceOfRole);
}

}  // namespace
}  // namespace psp::sp
