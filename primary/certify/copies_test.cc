#include "primary/certify/copies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace psp::primary {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

TEST(FewerThanListed, WithoutAListNothingIsAsked) { EXPECT_THAT(FewerThanListed({}, 0), IsEmpty()); }

TEST(FewerThanListed, AllThatAreListedMustHaveADecision) {
  EXPECT_THAT(FewerThanListed({.named = 1, .listed = 1}, 1), IsEmpty());
  EXPECT_THAT(FewerThanListed({.named = 1, .listed = 2}, 1), HasSubstr("lists 2 standbys, and 1 must have"));
}

TEST(FewerThanListed, PspMayAskForMoreThanPostgres) {
  EXPECT_THAT(FewerThanListed({.at_least = 2, .named = 1, .listed = 2}, 2), IsEmpty());
}

TEST(FewerThanListed, AStarIsEveryStandby) {
  EXPECT_THAT(FewerThanListed({.named = 1, .listed = 1, .any = true}, 1), HasSubstr("any standby will do"));
}

}  // namespace
}  // namespace psp::primary
