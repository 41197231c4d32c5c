#include "primary/core/standstill.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace psp::primary {
namespace {

using testing::HasSubstr;
using Cause = Standstill::Cause;

constexpr std::int64_t kSecondUs = 1'000'000;

class StandstillTest : public testing::Test {
 protected:
  // Time passes, and the watch sees this.
  std::optional<Note> Pass(std::int64_t us, Sight sight = {}) {
    now_us_ += us;
    sight.looked_us = now_us_;
    standstill_.OnSight(std::move(sight), now_us_);
    return standstill_.OnTime(now_us_);
  }
  // … and sees nothing.
  std::optional<Note> PassUnwatched(std::int64_t us) {
    now_us_ += us;
    return standstill_.OnTime(now_us_);
  }
  std::optional<Cause> Told() const {
    const auto& reason = standstill_.reason();
    return reason ? std::optional(reason->cause) : std::nullopt;
  }
  static Sight NoAnswer() { return {.error = "connection refused", .has_session = false}; }
  static Sight Standbys(int copied, int connected) {
    return {.copies = 1, .connected = connected, .copied = copied};
  }
  static Sight Trouble(const std::string& sqlstate) {
    return {.trouble = PgError{PgReaction::kAbort, sqlstate, "it is so"}};
  }

  std::int64_t now_us_ = 100 * kSecondUs;
  Standstill standstill_{Standstill::Limits{}};
};

TEST_F(StandstillTest, WhatLastsIsToldAndEndsByItself) {
  Pass(0);
  EXPECT_FALSE(Pass(kSecondUs, NoAnswer()));
  EXPECT_EQ(Told(), std::nullopt) << "a server that starts again soon blocks nobody";
  const auto begins = Pass(2 * kSecondUs, NoAnswer());
  ASSERT_TRUE(begins);
  EXPECT_EQ(begins->level, Note::Level::kError);
  EXPECT_THAT(begins->text, HasSubstr("connection refused"));
  EXPECT_EQ(Told(), Cause::kNoAnswer);
  EXPECT_EQ(standstill_.reason()->age_us(now_us_), 2 * kSecondUs);
  EXPECT_FALSE(Pass(kSecondUs, NoAnswer())) << "it is logged once";
  const auto ends = Pass(kSecondUs);
  ASSERT_TRUE(ends);
  EXPECT_EQ(ends->level, Note::Level::kInfo);
  EXPECT_THAT(ends->text, HasSubstr("after 4000 ms"));
  EXPECT_EQ(Told(), std::nullopt);
}

TEST_F(StandstillTest, AnotherCauseIsLoggedAndTheTimeGoesOn) {
  Pass(0);
  Pass(kSecondUs, NoAnswer());
  Pass(2 * kSecondUs, NoAnswer());
  const auto note = Pass(kSecondUs, Standbys(0, 0));
  ASSERT_TRUE(note);
  EXPECT_THAT(note->text, HasSubstr("0 of 1 have what was written, 0 are connected"));
  EXPECT_EQ(Told(), Cause::kStandby);
  EXPECT_EQ(standstill_.reason()->age_us(now_us_), 3 * kSecondUs);
}

TEST_F(StandstillTest, AWatchThatCannotConnectProvesNothingWhileExecutorsHaveSessions) {
  Sight sight = NoAnswer();
  sight.has_session = true;  // too many connections, perhaps
  for (int i = 0; i < 5; ++i) Pass(kSecondUs, sight);
  EXPECT_EQ(Told(), std::nullopt);
}

TEST_F(StandstillTest, ASilentServerIsToldThoughItsSessionsAreThere) {
  Pass(0);
  PassUnwatched(5 * kSecondUs);
  EXPECT_EQ(Told(), std::nullopt);
  PassUnwatched(1);
  EXPECT_EQ(Told(), Cause::kNoAnswer);
  EXPECT_GT(standstill_.reason()->age_us(now_us_), 5 * kSecondUs);
}

TEST_F(StandstillTest, AFirstLookMayTakeItsTime) {
  standstill_.OnSight({}, now_us_);
  PassUnwatched(4 * kSecondUs);
  EXPECT_EQ(Told(), std::nullopt);
}

TEST_F(StandstillTest, ABatchThatFailsBlocksOnlyIfNoneIsDecided) {
  Pass(0, Trouble("53100"));
  for (int i = 0; i < 5; ++i) {  // another executor
    standstill_.OnBatchSent(now_us_);
    standstill_.OnDecided(now_us_);
    Pass(kSecondUs, Trouble("53100"));
  }
  EXPECT_EQ(Told(), std::nullopt);
  Pass(kSecondUs, Trouble("53100"));
  EXPECT_EQ(Told(), Cause::kNoSpace);
  Pass(kSecondUs, Trouble("42501"));
  EXPECT_EQ(Told(), Cause::kBatchFails);
  EXPECT_THAT(standstill_.reason()->text, HasSubstr("42501 it is so"));
}

TEST_F(StandstillTest, RareDecisionsBesideABatchThatFailsDoNotMakeItFlip) {
  Pass(0, Trouble("53100"));
  int notes = 0;
  for (int i = 0; i < 200; ++i) {  // another executor decides every three seconds
    for (int second = 0; second < 3; ++second) notes += Pass(kSecondUs, Trouble("53100")).has_value();
    standstill_.OnBatchSent(now_us_);
    standstill_.OnDecided(now_us_);
  }
  notes += Pass(0, Trouble("53100")).has_value();
  EXPECT_EQ(notes, 2);  // it has begun and ended once
  EXPECT_EQ(Told(), std::nullopt);
  for (int second = 0; second < 4; ++second) Pass(kSecondUs, Trouble("53100"));
  EXPECT_EQ(Told(), Cause::kNoSpace) << "what decides nothing is told, a little later";
}

TEST_F(StandstillTest, TheNextStandstillIsToldLaterWhileItsCauseLasts) {
  const auto told_after_s = [&] {
    int seconds = 0;
    for (; !Told() && seconds < 100; ++seconds) Pass(kSecondUs, Trouble("53100"));
    standstill_.OnBatchSent(now_us_);
    standstill_.OnDecided(now_us_);
    Pass(0, Trouble("53100"));
    return seconds;
  };
  Pass(0, Trouble("53100"));
  std::vector<int> seconds;
  for (int i = 0; i < 6; ++i) seconds.push_back(told_after_s());
  EXPECT_THAT(seconds, testing::ElementsAre(2, 4, 8, 16, 30, 30));
  for (int i = 0; i < 59; ++i) Pass(kSecondUs);
  Pass(0, Trouble("53100"));  // it was not calm for long enough
  EXPECT_EQ(told_after_s(), 30);
  for (int i = 0; i < 60; ++i) Pass(kSecondUs);
  Pass(0, Trouble("53100"));
  EXPECT_EQ(told_after_s(), 2);
}

TEST_F(StandstillTest, ExecutorsWithoutSessionsAreToldThoughTheWatchHasOne) {
  Sight sight;
  sight.has_session = false;  // they were ended, and all connections are taken
  Pass(0, sight);
  Pass(2 * kSecondUs, sight);
  EXPECT_EQ(Told(), Cause::kNoAnswer);
  sight.trouble = PgError{PgReaction::kAbort, "53100", "it is so"};
  Pass(kSecondUs, sight);
  EXPECT_EQ(Told(), Cause::kNoSpace) << "an executor with trouble has closed its session";
}

TEST_F(StandstillTest, ALongBatchBlocksNobodyWhileAnExecutorIsFree) {
  Standstill two{Standstill::Limits{.executors = 2}};
  two.OnSight({}, now_us_);
  two.OnBatchSent(now_us_);
  two.OnSight({.looked_us = now_us_ + 11 * kSecondUs}, now_us_ + 11 * kSecondUs);
  two.OnTime(now_us_ + 11 * kSecondUs);
  EXPECT_FALSE(two.reason());
  two.OnBatchSent(now_us_ + 11 * kSecondUs);
  two.OnTime(now_us_ + 11 * kSecondUs);
  ASSERT_TRUE(two.reason());
  EXPECT_EQ(two.reason()->cause, Cause::kNoDecision);
}

TEST_F(StandstillTest, AStandbyThatIsConnectedAndDoesNotFollowIsTold) {
  Pass(0, Standbys(0, 1));
  Pass(2 * kSecondUs, Standbys(0, 1));
  EXPECT_EQ(Told(), Cause::kStandby);
  Pass(0, Standbys(1, 1));
  EXPECT_EQ(Told(), std::nullopt);
}

TEST_F(StandstillTest, BatchesOfWhichNoneEndsAreTold) {
  standstill_.OnBatchSent(now_us_);
  Pass(6 * kSecondUs);
  standstill_.OnBatchSent(now_us_);
  standstill_.OnDecided(now_us_);
  Pass(10 * kSecondUs);
  EXPECT_EQ(Told(), std::nullopt);
  Pass(kSecondUs);
  EXPECT_EQ(Told(), Cause::kNoDecision);
  EXPECT_EQ(standstill_.reason()->age_us(now_us_), 11 * kSecondUs);
  standstill_.OnDecided(now_us_);
  Pass(100 * kSecondUs);
  EXPECT_EQ(Told(), std::nullopt) << "nothing is under way";
}

// A name of a session has 63 bytes.
TEST(StandstillTextTest, NamesAreCutOff) {
  using Reason = Standstill::Reason;
  EXPECT_EQ(ShortText(Reason{Standstill::Cause::kStandby, "", 0}), "standby");
  EXPECT_EQ(ShortText(Reason{Standstill::Cause::kAhead, "", 0, "north, south"}), "ahead: north, south");
  EXPECT_EQ(ShortText(Reason{Standstill::Cause::kAhead, "", 0, std::string(60, 'n')}),
            "ahead: " + std::string(25, 'n') + "...");
}

}  // namespace
}  // namespace psp::primary
