#include "primary/core/hearing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace psp::primary {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::int64_t kSecondUs = 1'000'000;

// A database that ends at 99, where the epoch `old` began at 1 and this start's is `new`.
class HearingTest : public testing::Test {
 protected:
  void Begin(std::vector<std::string> names, Hearing::Past past = Ends(99)) {
    registry_.clear();
    for (SpId sp_id = 1; sp_id <= names.size(); ++sp_id) {
      registry_[sp_id] = {sp_id, names[sp_id - 1], false, 90};
    }
    hearing_.emplace(Hearing::Options{.hear_us = 2 * kSecondUs}, std::move(past));
    hearing_->OnRegistry(registry_, 0);
  }

  static Hearing::Past Ends(GlobalT closed_t) {
    return {{{"old", 1}, {"new", closed_t + 1}}, {0, closed_t}, {}, 50, closed_t};
  }

  static proto::Hello Hello(SpId sp_id, const std::string& name, GlobalT newest_t,
                            std::vector<std::string> followed = {"old"}) {
    proto::Hello hello;
    hello.set_sp_id(sp_id);
    hello.set_name(name);
    hello.set_watermark(newest_t);
    hello.set_newest_t(newest_t);
    hello.set_history(followed.empty() ? "old" : followed.back());
    if (!followed.empty()) hello.set_followed(followed.back());
    for (std::size_t i = 0; i + 1 < followed.size(); ++i) hello.add_followed_before(followed[i]);
    return hello;
  }

  void Hear(const proto::Hello& hello) { hearing_->OnHello(hello.name() + "'s route", hello, now_us_); }

  // The loop turns ten times a second.
  void Pass(std::int64_t us) {
    for (const std::int64_t end_us = now_us_ + us; now_us_ < end_us;) {
      now_us_ += kSecondUs / 10;
      hearing_->OnAllRead(now_us_);
    }
  }

  std::int64_t now_us_ = kSecondUs;
  Hearing::Registry registry_;
  std::optional<Hearing> hearing_;
};

TEST_F(HearingTest, IsOverWhenAllWhoAreRegisteredAreHeard) {
  Begin({"north", "south", "gone"});
  registry_[3].released = true;
  hearing_->OnRegistry(registry_, now_us_);
  Hear(Hello(1, "north", 99));
  EXPECT_FALSE(hearing_->is_over());
  EXPECT_THAT(hearing_->Told(), HasSubstr("waits for south"));
  Hear(Hello(2, "south", 95));
  EXPECT_TRUE(hearing_->is_over());
  EXPECT_THAT(hearing_->TakeRoutes(now_us_), ElementsAre("north's route", "south's route"));
  EXPECT_FALSE(hearing_->reason());
}

// It may have joined after the last record of this database, and committed since.
TEST_F(HearingTest, WhoHasNotJoinedHereIsWaitedForToo) {
  Begin({"north", "joins"});
  registry_[2].acked_t = -1;
  hearing_->OnRegistry(registry_, now_us_);
  Hear(Hello(1, "north", 99));
  EXPECT_FALSE(hearing_->is_over());
  Hear(Hello(2, "joins", 105));
  EXPECT_THAT(hearing_->ahead(), ElementsAre("joins"));
}

TEST_F(HearingTest, NobodyIsHeardWhereNobodyIsRegisteredOrTheTimeIsZero) {
  Begin({});
  EXPECT_TRUE(hearing_->is_over());
  EXPECT_TRUE(Hearing({.hear_us = 0}, Ends(99)).is_over());
}

TEST_F(HearingTest, WhoIsAwayIsWaitedForForATime) {
  Begin({"north", "south"});
  Hear(Hello(1, "north", 99));
  Pass(kSecondUs);
  Hear(Hello(1, "north", 99));
  EXPECT_FALSE(hearing_->is_over());
  Pass(kSecondUs + kSecondUs / 10);
  EXPECT_TRUE(hearing_->is_over());
  EXPECT_THAT(hearing_->unheard(), ElementsAre("south"));
  EXPECT_THAT(hearing_->TakeNotes().at(0).text, HasSubstr("without having heard south"));
}

TEST_F(HearingTest, ADaemonThatWasStoppedHasNotWaited) {
  Begin({"north"});
  Pass(kSecondUs / 10);
  now_us_ += 60 * kSecondUs;
  hearing_->OnAllRead(now_us_);
  EXPECT_FALSE(hearing_->is_over());
}

TEST_F(HearingTest, AnOldHelloDoesNotCount) {
  Begin({"north", "south"});
  Hear(Hello(1, "north", 99));
  now_us_ += 3 * kSecondUs;
  Hear(Hello(2, "south", 99));
  EXPECT_FALSE(hearing_->is_over());
  Hear(Hello(1, "north", 99));
  EXPECT_TRUE(hearing_->is_over());
}

TEST_F(HearingTest, AnOldHelloIsNotAskedAgain) {
  Begin({"north", "south"});
  Hear(Hello(1, "north", 99));
  registry_[1].released = true;
  hearing_->OnRegistry(registry_, now_us_);
  now_us_ += 3 * kSecondUs;
  Hear(Hello(2, "south", 99));
  EXPECT_TRUE(hearing_->is_over());
  EXPECT_THAT(hearing_->TakeRoutes(now_us_), ElementsAre("south's route"));
}

TEST_F(HearingTest, WhoIsAheadBlocksUntilTheLossIsAccepted) {
  Begin({"north", "south"});
  Hear(Hello(1, "north", 105));
  Hear(Hello(2, "south", 99));
  EXPECT_THAT(hearing_->TakeNotes().at(0).text, HasSubstr("north has transactions up to number 105"));
  Pass(60 * kSecondUs);
  EXPECT_FALSE(hearing_->is_over());
  ASSERT_TRUE(hearing_->reason());
  EXPECT_EQ(hearing_->reason()->cause, Standstill::Cause::kAhead);
  EXPECT_EQ(ShortText(*hearing_->reason()), "ahead: north");
  Hear(Hello(2, "south", 99));
  Hear(Hello(1, "north", 105, {}));
  EXPECT_TRUE(hearing_->is_over());
}

TEST_F(HearingTest, WhoIsAheadBlocksWhileItIsAway) {
  Begin({"north", "south"});
  Hear(Hello(1, "north", 105));
  Pass(60 * kSecondUs);
  Hear(Hello(2, "south", 99));
  EXPECT_FALSE(hearing_->is_over());
  registry_[1].released = true;  // psp primary remove
  hearing_->OnRegistry(registry_, now_us_);
  EXPECT_TRUE(hearing_->is_over());
}

TEST_F(HearingTest, TheOthersAreWaitedForAgainAfterABlock) {
  Begin({"north", "south"});
  Hear(Hello(1, "north", 105));
  Pass(60 * kSecondUs);
  Hear(Hello(1, "north", 105, {}));
  Pass(kSecondUs);
  EXPECT_FALSE(hearing_->is_over());
  Hear(Hello(2, "south", 99));
  EXPECT_TRUE(hearing_->is_over());
}

TEST_F(HearingTest, OneThatIsNotRegisteredHereBlocksToo) {
  Begin({"north"});
  Hear(Hello(7, "west", 105));
  Hear(Hello(1, "north", 99));
  EXPECT_FALSE(hearing_->is_over());
}

TEST_F(HearingTest, OneThatIsRemovedOrHasNothingDoesNot) {
  Begin({"north"});
  registry_[7] = {7, "west", true, 90};
  hearing_->OnRegistry(registry_, now_us_);
  Hear(Hello(7, "west", 105));
  Hear(Hello(8, "joins", 0, {"newer"}));
  Hear(Hello(9, "restored", 20, {"older"}));  // from before the log
  Hear(Hello(1, "north", 99));
  EXPECT_TRUE(hearing_->is_over());
}

TEST_F(HearingTest, OneThatIsServedElsewhereBlocksAndDoesNotCount) {
  Begin({"north", "south"});
  proto::Hello look = Hello(1, "north", 99);
  look.set_look(true);
  Hear(look);
  Hear(Hello(2, "south", 99));
  EXPECT_FALSE(hearing_->is_over());
  look.set_newest_t(105);
  Hear(look);
  EXPECT_TRUE(hearing_->is_blocked());
}

TEST_F(HearingTest, WhatGrowsElsewhereIsToldOnceAndInTheSameWords) {
  Begin({"north"});
  proto::Hello look = Hello(1, "north", 105);
  look.set_look(true);
  Hear(look);
  const std::string told = hearing_->Told();
  look.set_newest_t(106);
  Hear(look);
  EXPECT_EQ(hearing_->TakeNotes().size(), 1U);
  EXPECT_EQ(hearing_->Told(), told);
}

TEST_F(HearingTest, AnOwnCommitCountsToo) {
  Begin({"north"});
  proto::Hello hello = Hello(1, "north", 99);
  proto::OwnCommit* own = hello.add_own_commits();
  own->set_global_t(101);
  own->set_history("old");
  Hear(hello);
  EXPECT_TRUE(hearing_->is_blocked());
}

TEST_F(HearingTest, WhoHasFollowedANewerStartBlocksWithoutTransactionsOfIt) {
  Begin({"north"});
  proto::Hello hello = Hello(1, "north", 99, {"old", "newer"});
  hello.set_history("old");
  Hear(hello);
  EXPECT_TRUE(hearing_->is_blocked());
}

// The start before this one was blocked over a gap: it began at 98, below the newest number 99.
TEST_F(HearingTest, ASecondStartOverAGapIsBlockedAgain) {
  Begin({"north"}, {{{"old", 1}, {"blocked", 98}, {"new", 100}}, {0, 99, 99}, {}, 50, 99});
  Hear(Hello(1, "north", 98));
  EXPECT_TRUE(hearing_->is_blocked());
}

TEST_F(HearingTest, WhatWasGivenUpBlocksNoLaterStart) {
  const Hearing::Past past{{{"old", 1}, {"fork", 100}, {"new", 103}}, {0, 99, 102}, {}, 50, 102};
  Begin({"north"}, past);
  Hear(Hello(1, "north", 105));
  EXPECT_TRUE(hearing_->is_over());
  Begin({"north"}, past);
  Hear(Hello(1, "north", 120, {"old", "newer", "newest"}));
  EXPECT_TRUE(hearing_->is_over());
}

TEST_F(HearingTest, WithoutACommonEpochNothingIsGivenUp) {
  Begin({"north"}, {{{"old", 1}, {"fork", 100}, {"new", 103}}, {0, 99, 102}, {}, 50, 102});
  Hear(Hello(1, "north", 120, {"newer", "newest"}));
  EXPECT_TRUE(hearing_->is_blocked());
}

}  // namespace
}  // namespace psp::primary
