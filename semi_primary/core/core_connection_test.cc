// The core and the primary: Hello, Welcome, silence, histories, refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "semi_primary/testing/core_fixture.h"

namespace psp::sp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

TEST_F(SemiPrimaryCoreTest, SaysHelloUntilItIsWelcomedAndThenRequestsTheStream) {
  core_.OnTime(now_us_);
  EXPECT_THAT(Now().messages, IsEmpty()) << "the apply worker has not told where the database stands";
  Started(3);
  core_.OnTime(now_us_);
  const auto first = Now();
  ASSERT_THAT(Kinds(first), ElementsAre(proto::ToPrimary::kHello));
  EXPECT_EQ(first.messages[0].epoch(), 0);
  EXPECT_EQ(first.messages[0].hello().incarnation(), 42U);
  core_.OnTime(now_us_ + 100'000);
  EXPECT_THAT(Now().messages, IsEmpty());
  core_.OnTime(now_us_ + 500'000);
  EXPECT_THAT(Kinds(Now()), ElementsAre(proto::ToPrimary::kHello));
  Welcome(5);
  const auto request = Now();
  ASSERT_THAT(Kinds(request), ElementsAre(proto::ToPrimary::kStreamRequest));
  EXPECT_EQ(request.messages[0].stream_request().from(), 3);
  EXPECT_FALSE(request.messages[0].stream_request().with_copy());
  EXPECT_EQ(request.messages[0].epoch(), kEpoch);
}

TEST_F(SemiPrimaryCoreTest, PrimaryThatNeverAnswersIsToldOnce) {
  const auto notes_at = [this](std::int64_t after_us) {
    core_.OnTime(now_us_ + after_us);
    return Now().notes;
  };
  EXPECT_THAT(notes_at(-2 * kTimeoutUs), IsEmpty());
  EXPECT_THAT(notes_at(-1), IsEmpty()) << "Hello has not been said yet";
  Started(0);
  EXPECT_THAT(notes_at(0), IsEmpty());
  EXPECT_THAT(notes_at(kTimeoutUs), IsEmpty());
  const auto told = notes_at(kTimeoutUs + 1);
  ASSERT_THAT(told, SizeIs(1));
  EXPECT_NE(told[0].text.find("has not answered"), std::string::npos) << told[0].text;
  EXPECT_EQ(core_.Status(now_us_).last_error, told[0].text);
  EXPECT_THAT(notes_at(10 * kTimeoutUs), IsEmpty());
}

TEST_F(SemiPrimaryCoreTest, AnotherEpochIsNotHeard) {
  Enter();
  auto message = Replicate(0, 1);
  Add(&message, 1, kOther, 'a', Rows("k"));
  Hear(message, kEpoch - 1);
  EXPECT_THAT(Now().steps, IsEmpty());
  Hear(message);
  EXPECT_THAT(Now().steps, SizeIs(1));
}

TEST_F(SemiPrimaryCoreTest, SilenceBeginsAnewAndWhatIsOpenIsSentAgain) {
  Enter();
  Submit(1, Rows("k"));
  EXPECT_THAT(Kinds(Now()), ElementsAre(proto::ToPrimary::kCertify));
  now_us_ += kTimeoutUs + 1;
  core_.OnTime(now_us_);
  const auto lost = Now();
  EXPECT_TRUE(lost.reconnect);
  EXPECT_THAT(Kinds(lost), ElementsAre(proto::ToPrimary::kHello));
  EXPECT_FALSE(core_.connected());
  Welcome(0, kEpoch + 1);
  const auto again = Now();
  EXPECT_THAT(Kinds(again), ElementsAre(proto::ToPrimary::kStreamRequest, proto::ToPrimary::kCertify));
  EXPECT_EQ(again.messages[1].epoch(), kEpoch + 1);
  EXPECT_THAT(again.replies, IsEmpty());
}

TEST_F(SemiPrimaryCoreTest, WhileThePrimaryIsAwayForPlannedWorkNobodyHasWaitedTooLong) {
  Enter();
  Submit(1, Rows("sent"));
  Now();
  proto::ToSemiPrimary away;
  away.mutable_away()->set_limit_ms(30'000);
  Hear(away);
  const auto left = Now();
  EXPECT_FALSE(left.reconnect) << "the answer goes over the same connection";
  ASSERT_THAT(Kinds(left), ElementsAre(proto::ToPrimary::kGoodbye));
  EXPECT_EQ(left.messages[0].epoch(), kEpoch);
  EXPECT_FALSE(core_.connected());
  EXPECT_EQ(core_.Status(now_us_).state, "paused");
  EXPECT_TRUE(core_.Status(now_us_).can_commit);
  Submit(2, Rows("unsent"));
  core_.AskOutcome(3, Id(9), now_us_);
  for (int i = 0; i < 29; ++i) core_.OnTime(now_us_ += 1'000'000);
  EXPECT_THAT(Now().replies, IsEmpty());
  Welcome(0, kEpoch + 1);
  EXPECT_THAT(Kinds(Now()), ElementsAre(proto::ToPrimary::kStreamRequest, proto::ToPrimary::kCertify,
                                        proto::ToPrimary::kCertify, proto::ToPrimary::kOutcomeRequest));
  core_.OnTime(now_us_ += 9'900'000);
  EXPECT_THAT(Now().replies, IsEmpty());
  core_.OnTime(now_us_ += 200'000);  // commit_timeout_ms begins with the next primary
  EXPECT_THAT(Now().replies, SizeIs(3));
}

TEST_F(SemiPrimaryCoreTest, APrimaryThatDoesNotComeBackInTimeIsALostOne) {
  Enter();
  Submit(1, Rows("sent"));
  proto::ToSemiPrimary away;
  away.mutable_away()->set_limit_ms(30'000);
  Hear(away);
  Submit(2, Rows("unsent"));
  core_.OnTime(now_us_ += 30'900'000);
  EXPECT_THAT(Now().replies, IsEmpty());
  EXPECT_EQ(core_.Status(now_us_).state, "disconnected");
  EXPECT_FALSE(core_.Status(now_us_).can_commit);
  core_.OnTime(now_us_ += 200'000);
  const auto unsent = Now().replies;
  ASSERT_THAT(unsent, SizeIs(1));
  EXPECT_EQ(SqlState(unsent[0]), "08006");
  core_.OnTime(now_us_ += 10'000'000);
  const auto sent = Now().replies;
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(SqlState(sent[0]), "08007");
}

TEST_F(SemiPrimaryCoreTest, WhoStopsWhileThePrimaryIsAwayAnswersEverybody) {
  Enter();
  Submit(1, Rows("sent"));
  proto::ToSemiPrimary away;
  away.mutable_away()->set_limit_ms(30'000);
  Hear(away);
  Now();
  core_.Stop();
  core_.GiveUp();
  EXPECT_THAT(Now().replies, SizeIs(1));
}

TEST_F(SemiPrimaryCoreTest, BeginsAnewWhenThePrimaryDoesNotKnowIt) {
  Enter();
  proto::ToSemiPrimary message;
  message.mutable_welcome()->set_say_hello(true);
  Hear(message);
  EXPECT_TRUE(Now().reconnect);
  EXPECT_FALSE(core_.connected());
}

// What it may hand over to applications or apply counts, not only W.
TEST_F(SemiPrimaryCoreTest, HelloTellsUpToWhereItHasAllAndWhoDecidedThat) {
  const auto newest = [this] {
    const proto::Hello hello = LostAndHello();
    return std::pair(hello.newest_t(), hello.history());
  };
  Enter(0);
  EXPECT_EQ(newest(), std::pair(GlobalT{0}, std::string())) << "it has what was there at adoption";
  Started(90);
  EXPECT_EQ(newest(), std::pair(GlobalT{90}, std::string("older")));
  Welcome(90);
  Hear(Replicate(90, 150));
  EXPECT_EQ(newest(), std::pair(GlobalT{150}, std::string("now"))) << "received, not applied yet";
  Started(95);
  EXPECT_EQ(newest(), std::pair(GlobalT{95}, std::string("older"))) << "what was received is dropped";
}

TEST_F(SemiPrimaryCoreTest, HelloTellsOfOwnCommitsAboveThat) {
  const auto own = [](GlobalT global_t, char id, const char* history) {
    return std::tuple(global_t, Id(id).ToBytes(), std::string(history));
  };
  Enter(0);
  Started(90, false, {{99, Id(9)}});
  EXPECT_THAT(Own(LostAndHello()), ElementsAre(own(99, 9, "older"))) << "it is in psp.applied";
  Welcome(90);
  proto::ToSemiPrimary decision;
  decision.mutable_decision()->set_tx_id(Id(1).ToBytes());
  decision.mutable_decision()->set_global_t(160);
  Hear(decision);
  proto::ToSemiPrimary reply;
  reply.mutable_outcome_reply()->set_tx_id(Id(2).ToBytes());
  reply.mutable_outcome_reply()->set_global_t(140);
  Hear(reply);
  EXPECT_THAT(Own(LostAndHello()), ElementsAre(own(99, 9, "older"), own(140, 2, "now"), own(160, 1, "now")))
      << "a backend or a local worker may be committing them";
  Welcome(90);
  auto stream = Replicate(90, 150);
  Add(&stream, 145, kMe, 3, Rows("k"));
  Hear(stream);
  EXPECT_THAT(Own(LostAndHello()), ElementsAre(own(160, 1, "now"))) << "the others are in what was received";
  Started(90);
  EXPECT_THAT(Own(LostAndHello()), SizeIs(4)) << "now they are not, and may still come in";
  core_.OnApplyEvent(ApplyProgress{generation_, 150, 90, 0, false}, now_us_);
  EXPECT_THAT(Own(LostAndHello()), ElementsAre(own(160, 1, "now")));
}

TEST_F(SemiPrimaryCoreTest, WhoJoinsTellsNothingUntilTheCopyIsThere) {
  Enter(90, true);
  EXPECT_EQ(LostAndHello().newest_t(), 0) << "all of it will be replaced";
  Welcome(100);
  Hear(Chunk(100, 1, 1));
  EXPECT_EQ(LostAndHello().newest_t(), 0);
  Welcome(100);
  auto last = Chunk(100, 1, 1, true);
  last.mutable_copy_chunk()->set_complete_t(120);
  Hear(last);
  EXPECT_EQ(LostAndHello().newest_t(), 0) << "the rows that were changed up to 120 are missing";
  Welcome(100);
  Hear(Replicate(100, 120));
  EXPECT_EQ(LostAndHello().newest_t(), 120);
}

TEST_F(SemiPrimaryCoreTest, PrimaryThatDoesNotHaveWhatIsHereIsNotGivenAnything) {
  Enter(90);
  Hear(Replicate(90, 150));
  Submit(1, Rows("k"));
  Now();
  Welcome(200, kEpoch, {{"older", 1}, {"now", 101}, {"next", 151}});
  EXPECT_FALSE(core_.fatal());
  Welcome(200, kEpoch, {{"older", 1}, {"now", 101}, {"restored", 150}});
  EXPECT_TRUE(core_.fatal());
  EXPECT_THAT(core_.Status(now_us_).last_error, HasSubstr("global_t 150"));
  for (const auto& message : Now().messages) {
    EXPECT_FALSE(message.has_stream_request() || message.has_certify()) << message.ShortDebugString();
  }
}

// It was said before what has come since, and a primary that lacks that may have answered it.
TEST_F(SemiPrimaryCoreTest, AnswerOfAnotherPrimaryToAnOlderHelloIsNoWelcome) {
  Enter(90);
  Welcome(90, kEpoch + 1);
  EXPECT_FALSE(core_.connected());
  EXPECT_TRUE(Now().reconnect);
  core_.OnTime(now_us_);
  EXPECT_THAT(Kinds(Now()), ElementsAre(proto::ToPrimary::kHello));
}

TEST_F(SemiPrimaryCoreTest, NothingGoesOnBeforeTheEpochsAreSaved) {
  Enter(90);
  Submit(1, Rows("k"));
  Now();
  const EpochStarts grown = {{"older", 1}, {"now", 101}, {"next", 111}};
  WelcomeAgain(110, grown);
  Submit(2, Rows("l"));
  core_.OnApplyEvent(ApplyProgress{generation_, 90, 90, 0, false}, now_us_);
  auto actions = Now();
  EXPECT_THAT(actions.messages, IsEmpty());
  EXPECT_EQ(actions.save_epochs, grown);
  core_.OnApplyEvent(EpochsSaved{kEpochs}, now_us_);
  EXPECT_EQ(Now().save_epochs, grown) << "those were saved for an older Welcome";
  core_.OnApplyEvent(EpochsSaved{grown}, now_us_);
  actions = Now();
  EXPECT_EQ(actions.save_epochs, std::nullopt);
  EXPECT_THAT(Kinds(actions), ElementsAre(proto::ToPrimary::kStreamRequest, proto::ToPrimary::kCertify,
                                          proto::ToPrimary::kCertify));
  Welcome(110, kEpoch + 1, grown);
  EXPECT_EQ(Now().save_epochs, std::nullopt) << "they are there";
}

TEST_F(SemiPrimaryCoreTest, AnOlderPrimaryIsNotFollowedAndIsNoReasonToEnd) {
  Enter(90);
  EXPECT_EQ(LostAndHello().followed(), "now");
  Welcome(90, kEpoch, {{"older", 1}});
  EXPECT_FALSE(core_.connected());
  EXPECT_FALSE(core_.fatal());
  EXPECT_THAT(core_.Status(now_us_).last_error, HasSubstr("accept-loss"));
  proto::ToSemiPrimary message;
  message.mutable_refused()->set_reason(proto::Refused::STALE_PRIMARY);
  Hear(message);
  EXPECT_FALSE(core_.fatal());
  Welcome(90, kEpoch + 1, {{"older", 1}, {"now", 101}, {"next", 101}});
  EXPECT_TRUE(core_.connected());
  EXPECT_EQ(core_.Status(now_us_).last_error, "");
}

// What a crash has taken and the primary does not have either was lost: nobody waits for it.
TEST_F(SemiPrimaryCoreTest, WhatAnotherPrimaryLacksDoesNotComeBack) {
  Started(90);
  core_.OnTime(now_us_);
  Welcome(155);
  core_.OnApplyEvent(EpochsSaved{kEpochs}, now_us_);
  Started(80);
  WelcomeAgain(90, {{"older", 1}, {"now", 101}, {"next", 101}});
  core_.OnApplyEvent(EpochsSaved{{{"older", 1}, {"now", 101}, {"next", 101}}}, now_us_);
  core_.OnApplyEvent(ApplyProgress{generation_, 90, 90, 0, false}, now_us_);
  EXPECT_FALSE(core_.Status(now_us_).lacks_own);
}

class SeveralAddressesTest : public SemiPrimaryCoreTest {
 protected:
  proto::ToSemiPrimary LookAnswer(const EpochStarts& epochs) {
    proto::ToSemiPrimary message;
    message.mutable_welcome()->set_look(true);
    for (const EpochStart& one : epochs) AddTo(message.mutable_welcome()->mutable_epochs(), one);
    return message;
  }
  proto::ToSemiPrimary WelcomeOfTheFollowed() {
    proto::ToSemiPrimary message = LookAnswer(kEpochs);
    message.set_epoch(kEpoch);
    message.mutable_welcome()->set_look(false);
    return message;
  }
  proto::ToSemiPrimary RefusedLook(proto::Refused::Reason reason, const std::string& why) {
    proto::ToSemiPrimary message;
    message.mutable_refused()->set_reason(reason);
    message.mutable_refused()->set_message(why);
    message.mutable_refused()->set_look(true);
    return message;
  }
  // It has said Hello to the primary that it has followed, at the first address.
  void ChooseTheFirst() {
    several_.OnApplyEvent(ApplyStarted{1, 90, false, nullptr, {}}, now_us_);
    several_.OnMessage(LookAnswer({{"now", 101}}), now_us_, 0);
  }
  Core several_{{.cluster_id = std::string(16, 'c'),
                 .sp_id = kMe,
                 .name = "sp1",
                 .incarnation = 42,
                 .watermark = 0,
                 .epochs = kEpochs,
                 .addresses = 2,
                 .heartbeat_timeout_us = kTimeoutUs}};
};

TEST_F(SeveralAddressesTest, AllAreAskedAndHelloIsSaidToOne) {
  several_.OnApplyEvent(ApplyStarted{1, 90, false, nullptr, {}}, now_us_);
  several_.OnTime(now_us_);
  auto actions = several_.TakeActions();
  ASSERT_EQ(actions.looks.size(), 1U);
  EXPECT_TRUE(actions.looks[0].hello().look());
  EXPECT_EQ(actions.looks[0].hello().followed(), "now");
  EXPECT_THAT(actions.messages, IsEmpty());
  several_.OnMessage(LookAnswer({{"now", 101}}), now_us_, 1);
  actions = several_.TakeActions();
  EXPECT_EQ(actions.go_to, 1U);
  EXPECT_THAT(Kinds(actions), ElementsAre(proto::ToPrimary::kHello));
  EXPECT_FALSE(actions.messages[0].hello().look());
}

TEST_F(SeveralAddressesTest, ARefusedLookIsNeverForGood) {
  several_.OnApplyEvent(ApplyStarted{1, 90, false, nullptr, {}}, now_us_);
  several_.OnMessage(RefusedLook(proto::Refused::UNKNOWN_SP, "it is not registered"), now_us_, 1);
  EXPECT_FALSE(several_.fatal());
  EXPECT_EQ(several_.Status(now_us_).last_error, "it is not registered");
}

// It has lost them; the one that has them may be an old one.
TEST_F(SeveralAddressesTest, ANewerPrimaryThatLacksTransactionsIsTold) {
  ChooseTheFirst();
  several_.OnMessage(WelcomeOfTheFollowed(), now_us_, 0);
  const proto::ToSemiPrimary message = RefusedLook(proto::Refused::OTHER_HISTORY, "join again");
  several_.OnMessage(message, now_us_, 1);
  EXPECT_TRUE(several_.connected());
  EXPECT_THAT(several_.Status(now_us_).last_error, HasSubstr("another primary was promoted"));
  now_us_ += kTimeoutUs + 1;
  several_.OnTime(now_us_);
  ASSERT_FALSE(several_.connected());
  several_.OnMessage(message, now_us_, 1);
  EXPECT_TRUE(several_.fatal()) << "it must not go back to the old one";
}

TEST_F(SeveralAddressesTest, FromAnOldPrimaryItGoesToTheNewerOne) {
  ChooseTheFirst();
  several_.OnMessage(WelcomeOfTheFollowed(), now_us_, 1);
  EXPECT_FALSE(several_.connected()) << "nobody has said Hello to that one";
  several_.OnMessage(WelcomeOfTheFollowed(), now_us_, 0);
  ASSERT_TRUE(several_.connected());
  several_.TakeActions();
  several_.OnMessage(LookAnswer({{"now", 101}}), now_us_, 1);
  EXPECT_TRUE(several_.connected()) << "it is the same one";
  several_.OnMessage(LookAnswer({{"now", 101}, {"next", 101}}), now_us_, 1);
  EXPECT_FALSE(several_.connected());
  const auto actions = several_.TakeActions();
  EXPECT_TRUE(actions.reconnect);
  EXPECT_EQ(actions.go_to, 1U);
  EXPECT_THAT(Kinds(actions), ElementsAre(proto::ToPrimary::kHello));
}

// Its own answers would keep the connection to a dead one open.
TEST_F(SeveralAddressesTest, AnswersOfOthersAreNoSignOfLife) {
  ChooseTheFirst();
  several_.OnMessage(WelcomeOfTheFollowed(), now_us_, 0);
  now_us_ += kTimeoutUs + 1;
  several_.OnMessage(LookAnswer({{"now", 101}}), now_us_, 1);
  several_.OnTime(now_us_);
  EXPECT_FALSE(several_.connected());
}

TEST_F(SeveralAddressesTest, ItStaysWithOneThatHearsTheOthersFirst) {
  ChooseTheFirst();
  several_.TakeActions();
  proto::ToSemiPrimary wait = RefusedLook(proto::Refused::NOT_YET, "it waits for sp2");
  wait.mutable_refused()->set_look(false);
  for (int i = 0; i < 4; ++i) {
    now_us_ += kTimeoutUs / 2;
    several_.OnMessage(wait, now_us_, 0);
    several_.OnMessage(LookAnswer({{"now", 101}}), now_us_, 1);
    EXPECT_FALSE(several_.TakeActions().go_to);
  }
  EXPECT_FALSE(several_.fatal());
}

TEST_F(SeveralAddressesTest, FromOneThatLacksTransactionsItGoesToAnother) {
  ChooseTheFirst();
  proto::ToSemiPrimary lacks = RefusedLook(proto::Refused::LACKS, "it lacks what sp2 has");
  lacks.mutable_refused()->set_look(false);
  several_.OnMessage(lacks, now_us_, 0);
  EXPECT_EQ(several_.Status(now_us_).state, "blocked");
  EXPECT_FALSE(several_.Status(now_us_).can_commit);
  several_.OnMessage(LookAnswer({{"now", 101}}), now_us_, 1);
  EXPECT_EQ(several_.TakeActions().go_to, 1U);
}

TEST_F(SeveralAddressesTest, WhatANewerPrimaryLacksIsToldOnce) {
  ChooseTheFirst();
  several_.OnMessage(WelcomeOfTheFollowed(), now_us_, 0);
  several_.TakeActions();
  const proto::ToSemiPrimary lacks = RefusedLook(proto::Refused::LACKS, "it lacks what sp2 has");
  several_.OnMessage(lacks, now_us_, 1);
  EXPECT_TRUE(several_.connected());
  EXPECT_THAT(several_.Status(now_us_).last_error, HasSubstr("another primary was promoted"));
  const auto notes = several_.TakeActions().notes;
  ASSERT_THAT(notes, SizeIs(1));
  EXPECT_TRUE(notes[0].once);
}

TEST_F(SemiPrimaryCoreTest, HelloTellsWhatWasFollowedBefore) {
  Enter();
  const proto::Hello hello = LostAndHello();
  EXPECT_EQ(hello.followed(), "now");
  EXPECT_THAT(hello.followed_before(), ElementsAre("older"));
}

TEST_F(SemiPrimaryCoreTest, HelloIsSaidAgainWhenThePrimaryThatHeardItDecides) {
  Started(3);
  core_.OnTime(now_us_);
  Now();
  proto::ToSemiPrimary say_hello;
  say_hello.mutable_welcome()->set_say_hello(true);
  Hear(say_hello);
  EXPECT_THAT(Kinds(Now()), ElementsAre(proto::ToPrimary::kHello));
}

TEST_F(SemiPrimaryCoreTest, WhyThePrimaryWaitsIsToldAndIsNoReasonToEnd) {
  Started(3);
  core_.OnTime(now_us_);
  Now();
  proto::ToSemiPrimary message;
  message.mutable_refused()->set_reason(proto::Refused::NOT_YET);
  message.mutable_refused()->set_message("it waits for sp2");
  Hear(message);
  Hear(message);
  EXPECT_THAT(Now().notes, SizeIs(1));
  EXPECT_EQ(core_.Status(now_us_).last_error, "it waits for sp2");
  message.mutable_refused()->set_reason(proto::Refused::LACKS);
  message.mutable_refused()->set_message("it lacks what sp2 has");
  Hear(message);
  EXPECT_FALSE(core_.fatal());
  EXPECT_EQ(core_.Status(now_us_).state, "blocked");
  Welcome(3);
  EXPECT_NE(core_.Status(now_us_).state, "blocked");
}

TEST_F(SemiPrimaryCoreTest, OnlySomeRefusalsAreForGood) {
  proto::ToSemiPrimary message;
  message.mutable_refused()->set_reason(proto::Refused::DUPLICATE_SP);
  Hear(message);
  EXPECT_FALSE(core_.fatal());
  message.mutable_refused()->set_reason(proto::Refused::LOG_TRUNCATED);
  Hear(message);
  EXPECT_TRUE(core_.fatal());
}

TEST_F(SemiPrimaryCoreTest, AsksOnceForTheNameOfANewSemiPrimary) {
  Enter();
  auto message = Replicate(0, 1);
  Add(&message, 1, 9, 'a', Rows("k"));
  Hear(message);
  auto actions = Now();
  EXPECT_THAT(Kinds(actions), ElementsAre(proto::ToPrimary::kHello));
  EXPECT_THAT(actions.steps, IsEmpty());
  Hear(Replicate(1, 2));
  EXPECT_THAT(Now().messages, IsEmpty()) << "what comes before Welcome comes again";
  Welcome();
  EXPECT_THAT(Kinds(Now()), ElementsAre(proto::ToPrimary::kStreamRequest));
  Hear(message);
  actions = Now();
  EXPECT_THAT(actions.messages, IsEmpty());
  EXPECT_THAT(actions.steps, SizeIs(1));
}

}  // namespace
}  // namespace psp::sp
