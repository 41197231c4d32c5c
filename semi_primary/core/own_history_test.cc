#include "semi_primary/core/own_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace psp::sp {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Key;

TxId Id(char number) { return *TxId::FromBytes(std::string(TxId::kSize, number)); }

TEST(OwnHistory, ForgetsWhatIsBelowW) {
  OwnHistory own(false);
  own.Add(5, Id(5));
  own.Add(7, Id(7));
  own.OnApplied(5);
  EXPECT_THAT(own.commits(), ElementsAre(Key(7)));
}

TEST(OwnHistory, ALostSessionTakesNothing) {
  OwnHistory own(false);
  own.Add(5, Id(5));
  own.OnApplyStarted(3, 3, {{5, Id(5)}}, false);
  EXPECT_FALSE(own.IsLacking(3));
}

TEST(OwnHistory, ACommitThatWasInAndIsNotMustComeBack) {
  OwnHistory own(false);
  own.Add(5, Id(5));
  own.Add(6, Id(6));
  own.OnApplyStarted(3, 3, {{5, Id(5)}}, false);
  EXPECT_EQ(own.back_t(), 6);
  EXPECT_TRUE(own.IsLacking(5));
  EXPECT_FALSE(own.IsLacking(6));
  EXPECT_THAT(own.commits(), ElementsAre(Key(5), Key(6))) << "it may still come in from the stream";
}

TEST(OwnHistory, WhereWGoesBackEverythingUpToTheOldWMustComeBack) {
  OwnHistory own(false);
  own.OnApplyStarted(7, 3, {}, false);
  EXPECT_TRUE(own.IsLacking(6));
  EXPECT_FALSE(own.IsLacking(7));
}

TEST(OwnHistory, ANewDaemonKnowsOnlyFromThePrimaryHowFarOwnCommitsReach) {
  OwnHistory own(true);
  EXPECT_TRUE(own.IsLacking(1'000'000));
  own.OnWelcome(9, false);
  EXPECT_TRUE(own.IsLacking(8));
  EXPECT_FALSE(own.IsLacking(9));
  own.OnWelcome(50, false);
  EXPECT_FALSE(own.IsLacking(9)) << "only the first Welcome says what may be lacking";
}

// A session that an earlier daemon has told of its commit commits after this daemon has read what there is.
TEST(OwnHistory, ACrashMayTakeWhatAnEarlierDaemonHasTold) {
  OwnHistory own(false);
  own.OnApplyStarted(4, 4, {}, false);
  own.OnWelcome(6, false);
  EXPECT_FALSE(own.IsLacking(4));
  own.OnApplyStarted(4, 4, {}, false);
  EXPECT_TRUE(own.IsLacking(5));
  EXPECT_FALSE(own.IsLacking(6));
  own.OnApplyStarted(6, 6, {}, false);
  EXPECT_EQ(own.back_t(), 6) << "all of that is applied";
}

TEST(OwnHistory, ACrashBeforeTheFirstWelcomeMayTakeIt) {
  OwnHistory own(false);
  own.OnApplyStarted(4, 4, {}, false);
  own.OnApplyStarted(4, 4, {}, false);
  EXPECT_TRUE(own.IsLacking(1'000'000));
  own.OnWelcome(6, false);
  EXPECT_TRUE(own.IsLacking(5));
  EXPECT_FALSE(own.IsLacking(6));
}

TEST(OwnHistory, AJoinMayBeginAgainBeforeTheFirstWelcome) {
  OwnHistory own(false);
  own.OnApplyStarted(-1, -1, {}, true);
  own.OnApplyStarted(-1, -1, {}, true);
  own.OnWelcome(6, false);
  EXPECT_EQ(own.back_t(), 6);
}

TEST(OwnHistory, ACopyReplacesEverything) {
  OwnHistory own(false);
  own.Add(5, Id(5));
  own.OnApplyStarted(0, 0, {}, true);
  EXPECT_THAT(own.commits(), IsEmpty());
}

}  // namespace
}  // namespace psp::sp
