#include "semi_primary/session/xid_ages.h"

#include <gtest/gtest.h>

namespace psp::sp {
namespace {

TEST(XidAges, WhatBeganSoLongAgoIsOld) {
  XidAges ages(1000);
  EXPECT_EQ(ages.OldBelow(5000), 0U);
  ages.Note(10, 5000);
  ages.Note(20, 5500);
  EXPECT_EQ(ages.OldBelow(5999), 0U);
  EXPECT_EQ(ages.OldBelow(6000), 10U);
  EXPECT_EQ(ages.OldBelow(6499), 10U);
  EXPECT_EQ(ages.OldBelow(9000), 20U);
}

TEST(XidAges, NotesThatComeFastAreThinnedOut) {
  XidAges ages(640);
  for (std::uint64_t us = 0; us < 10'000; ++us) ages.Note(us, static_cast<std::int64_t>(us));
  EXPECT_EQ(ages.OldBelow(10'000), 9360U);
  EXPECT_EQ(ages.OldBelow(10'009), 9360U);
  EXPECT_EQ(ages.OldBelow(10'010), 9370U);
}

TEST(XidAges, WithoutAnAgeAllThatHasBegunIsOld) {
  XidAges ages(0);
  ages.Note(7, 1);
  EXPECT_EQ(ages.OldBelow(1), 7U);
}

}  // namespace
}  // namespace psp::sp
