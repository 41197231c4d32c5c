// The core and local commits: whether they are taken, and what a crash does to own ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "semi_primary/testing/core_fixture.h"

namespace psp::sp {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

// An 08006 without `psp: ` would be libpq's own, and the hook would tell the application that the outcome is
// unknown.
TEST_F(SemiPrimaryCoreTest, CommitIsRefusedBeforeAnythingIsSentWhileItCannotBeServed) {
  Enter(0, true);
  Submit(2, Rows("k"));
  const auto actions = Now();
  ASSERT_THAT(actions.replies, SizeIs(1));
  EXPECT_EQ(SqlState(actions.replies[0]), "08006");
  EXPECT_THAT(Message(actions.replies[0]), AllOf(StartsWith("psp: "), HasSubstr("joining")));
  EXPECT_THAT(actions.messages, IsEmpty());
}

TEST_F(SemiPrimaryCoreTest, CommitOfTheFirstMomentWaitsForTheConnection) {
  Submit(1, Rows("k"));
  EXPECT_THAT(Now().replies, IsEmpty());
  Started(0);
  core_.OnTime(now_us_);
  Welcome();
  const auto actions = Now();
  EXPECT_THAT(actions.replies, IsEmpty());
  EXPECT_THAT(Kinds(actions), Contains(proto::ToPrimary::kCertify));
}

TEST_F(SemiPrimaryCoreTest, ItEndsWhenItsDatabaseIsAnotherOne) {
  Enter();
  core_.OnApplyEvent(ApplyFailed{"another database"}, now_us_);
  EXPECT_EQ(core_.exit_code(), 2);
  EXPECT_EQ(core_.Status(now_us_).last_error, "another database");
}

TEST_F(SemiPrimaryCoreTest, ItEndsToBeStartedAgainWhenAStandbyWasPromoted) {
  Enter();
  core_.OnApplyEvent(ApplyFailed{"promoted", true}, now_us_);
  EXPECT_EQ(core_.exit_code(), 1);
}

TEST_F(SemiPrimaryCoreTest, ItsStateTellsWhetherItHasWhatThePrimaryHas) {
  Enter();
  EXPECT_EQ(core_.Status(now_us_).state, "catchup");
  Hear(Replicate(0, 0));
  EXPECT_EQ(core_.Status(now_us_).state, "streaming");
  Hear(Replicate(3, 5));
  EXPECT_EQ(core_.Status(now_us_).state, "catchup") << "a part of the stream is missing";
}

TEST_F(SemiPrimaryCoreTest, AnSpThatAppliesTooSlowlyDoesNotStream) {
  Enter();
  Hear(Replicate(0, 0));
  Hear(Replicate(0, 5));
  EXPECT_EQ(core_.Status(now_us_).state, "streaming");
  const std::int64_t late_us = now_us_ + 5'000'000;
  EXPECT_GE(core_.Status(late_us).lag_ms, 5000);
  EXPECT_EQ(core_.Status(late_us).state, "catchup");
  EXPECT_TRUE(core_.Status(late_us).has_caught_up) << "its sequences follow all the same";
}

TEST_F(SemiPrimaryCoreTest, WhatMayPassIsShownAndRefusesNobody) {
  Enter();
  Hear(Replicate(0, 0));
  core_.OnApplyEvent(ApplyTrouble{"disk full", false}, now_us_);
  EXPECT_EQ(core_.Status(now_us_).state, "retrying");
  EXPECT_EQ(core_.Status(now_us_).last_error, "disk full");
  Submit(1, Rows("k"));
  EXPECT_THAT(Kinds(Now()), ElementsAre(proto::ToPrimary::kCertify));
  core_.OnApplyEvent(ApplyTrouble{}, now_us_);
  EXPECT_EQ(core_.Status(now_us_).state, "streaming");
  EXPECT_EQ(core_.Status(now_us_).last_error, "");
}

TEST_F(SemiPrimaryCoreTest, APrimaryThatCanDecideNothingIsShownAndLoggedOnce) {
  Enter();
  Hear(Replicate(0, 0));
  proto::ToSemiPrimary reply;
  reply.mutable_heartbeat_reply()->mutable_standstill()->set_why("disk full");
  Hear(reply);
  Hear(reply);
  EXPECT_EQ(core_.Status(now_us_).state, "blocked");
  EXPECT_EQ(core_.Status(now_us_).last_error, "disk full");
  auto notes = Now().notes;
  ASSERT_THAT(notes, SizeIs(1));
  EXPECT_EQ(notes[0].level, Note::Level::kError);
  EXPECT_THAT(notes[0].text, HasSubstr("disk full"));
  reply.mutable_heartbeat_reply()->clear_standstill();
  Hear(reply);
  EXPECT_EQ(core_.Status(now_us_).state, "streaming");
  EXPECT_EQ(core_.Status(now_us_).last_error, "");
  notes = Now().notes;
  ASSERT_THAT(notes, SizeIs(1));
  EXPECT_EQ(notes[0].level, Note::Level::kInfo);
}

TEST_F(SemiPrimaryCoreTest, ItCanCommitOnlyWhileNothingKeepsItFromThat) {
  EXPECT_FALSE(core_.Status(now_us_).can_commit) << "there is no connection";
  Started(0);
  core_.OnTime(now_us_);
  EXPECT_FALSE(core_.Status(now_us_).can_commit) << "the primary has not answered";
  Welcome();
  EXPECT_TRUE(core_.Status(now_us_).can_commit);
  proto::ToSemiPrimary reply;
  reply.mutable_heartbeat_reply()->mutable_standstill()->set_why("disk full");
  Hear(reply);
  EXPECT_FALSE(core_.Status(now_us_).can_commit) << "the primary decides nothing";
  reply.mutable_heartbeat_reply()->clear_standstill();
  Hear(reply);
  EXPECT_TRUE(core_.Status(now_us_).can_commit);
  core_.OnApplyEvent(ApplyTrouble{"disk full", false}, now_us_);
  EXPECT_FALSE(core_.Status(now_us_).can_commit) << "it cannot write";
  core_.OnApplyEvent(ApplyTrouble{}, now_us_);
  EXPECT_TRUE(core_.Status(now_us_).can_commit);
  core_.Stop();
  EXPECT_FALSE(core_.Status(now_us_).can_commit) << "it stops";
}

TEST_F(SemiPrimaryCoreTest, AJoiningOneCannotCommit) {
  Enter(0, true);
  EXPECT_FALSE(core_.Status(now_us_).can_commit);
}

TEST_F(SemiPrimaryCoreTest, AStandstillOfAPrimaryThatIsLostIsForgotten) {
  Enter();
  Hear(Replicate(0, 0));
  proto::ToSemiPrimary reply;
  reply.mutable_heartbeat_reply()->mutable_standstill()->set_why("disk full");
  Hear(reply);
  LostAndHello();
  EXPECT_EQ(core_.Status(now_us_).state, "disconnected");
  Welcome();
  Hear(Replicate(0, 0));
  EXPECT_EQ(core_.Status(now_us_).state, "streaming");
}

TEST_F(SemiPrimaryCoreTest, StoppedApplyingRefusesCommitsWithoutSayingWhatIsInTheRows) {
  Enter();
  core_.OnApplyEvent(ApplyTrouble{"a row is (4711, secret)", true}, now_us_);
  Submit(1, Rows("k"));
  const auto actions = Now();
  EXPECT_EQ(SqlState(actions.replies.at(0)), "08006");
  EXPECT_THAT(Message(actions.replies[0]), Not(HasSubstr("secret")));
  EXPECT_FALSE(core_.fatal()) << "status and outcomes can still be told";
  // The worker tries again in a new session: the stream comes again, and nothing else changes.
  Started(0);
  EXPECT_THAT(Kinds(Now()), ElementsAre(proto::ToPrimary::kStreamRequest));
  EXPECT_EQ(core_.Status(now_us_).state, "failed");
  core_.OnApplyEvent(ApplyTrouble{}, now_us_);
  Submit(2, Rows("k"));
  EXPECT_THAT(Kinds(Now()), ElementsAre(proto::ToPrimary::kCertify));
}

TEST_F(SemiPrimaryCoreTest, TheApplyWorkerHurriesForWhoHasLost) {
  Enter();
  Submit(1, Rows("k"));
  EXPECT_FALSE(Now().hurry);
  proto::ToSemiPrimary lost;
  lost.mutable_decision()->set_tx_id(Id(1).ToBytes());
  lost.mutable_decision()->mutable_conflict()->set_winner_t(7);
  Hear(lost);
  EXPECT_TRUE(Now().hurry);
  EXPECT_FALSE(Now().hurry);
}

TEST_F(SemiPrimaryCoreTest, WhoWaitsForANumberIsToldWhenItIsApplied) {
  Enter();
  core_.AskReached({1, 5}, now_us_);
  core_.AskReached({2, 7}, now_us_);
  core_.AskReached({3, 5}, now_us_);
  core_.BackendGone(3);
  const auto asked = Now();
  EXPECT_FALSE(asked.hurry) << "for numbers that nobody has heard of";
  EXPECT_THAT(asked.replies, IsEmpty());
  core_.OnApplyEvent(ApplyProgress{generation_, 5, 5, 0, false}, now_us_);
  const auto applied = Now();
  ASSERT_THAT(applied.replies, SizeIs(1));
  EXPECT_EQ(applied.replies[0].ticket, 1U);
  EXPECT_TRUE(std::get<Reached>(applied.replies[0].answer).yes);
  core_.AskReached({4, 5}, now_us_);
  const auto at_once = Now();
  ASSERT_THAT(at_once.replies, SizeIs(1));
  EXPECT_TRUE(std::get<Reached>(at_once.replies[0].answer).yes);
  core_.OnTime(now_us_ + 200'000);
  const auto not_yet = Now();
  ASSERT_THAT(not_yet.replies, SizeIs(1));
  EXPECT_EQ(not_yet.replies[0].ticket, 2U);
  EXPECT_FALSE(std::get<Reached>(not_yet.replies[0].answer).yes);
}

TEST_F(SemiPrimaryCoreTest, ATableIsHeldWhenWhatWasCommittedIsApplied) {
  Enter();
  core_.Hold({1, 700, {3}, 5000}, now_us_);
  EXPECT_EQ(core_.holding_transaction(), 700U);
  const auto asked = Now();
  EXPECT_TRUE(asked.hurry);
  EXPECT_THAT(Kinds(asked), ElementsAre(proto::ToPrimary::kHold));
  proto::ToSemiPrimary granted;
  granted.mutable_hold_reply()->set_hold_id(asked.messages[0].hold().hold_id());
  granted.mutable_hold_reply()->set_global_t(5);
  Hear(granted);
  const auto waiting = Now();
  EXPECT_THAT(waiting.replies, IsEmpty());
  EXPECT_TRUE(waiting.hurry);
  core_.OnApplyEvent(ApplyProgress{generation_, 5, 5, 0, false}, now_us_);
  const auto actions = Now();
  ASSERT_THAT(actions.replies, SizeIs(1));
  EXPECT_TRUE(std::get<Held>(actions.replies[0].answer).granted);
  core_.OnApplyEvent(HoldingTransactionEnded{700}, now_us_);
  EXPECT_EQ(core_.holding_transaction(), std::nullopt);
  EXPECT_THAT(Kinds(Now()), ElementsAre(proto::ToPrimary::kEndHold));
}

TEST_F(SemiPrimaryCoreTest, TheTablesOfALostSchemaChangeAreHeldForItsNextAttempt) {
  Enter();
  proto::WriteSet change;
  change.set_kind(proto::ENTRY_SCHEMA_CHANGE);
  change.add_table_changes()->set_table_id(3);
  const auto write_set = std::make_shared<proto::WriteSet>(change);
  Submit(1, write_set);
  Now();
  proto::ToSemiPrimary lost;
  lost.mutable_decision()->set_tx_id(Id(1).ToBytes());
  lost.mutable_decision()->set_error("rows are missing");
  lost.mutable_decision()->set_older_catalog(true);
  Hear(lost);
  const auto actions = Now();
  EXPECT_EQ(SqlState(actions.replies.at(0)), "40001");
  ASSERT_THAT(Kinds(actions), ElementsAre(proto::ToPrimary::kHold));
  EXPECT_THAT(actions.messages[0].hold().table_ids(), ElementsAre(3));
  Submit(2, write_set);
  Now();
  proto::ToSemiPrimary committed;
  committed.mutable_decision()->set_tx_id(Id(2).ToBytes());
  committed.mutable_decision()->set_global_t(7);
  Hear(committed);
  Submit(3, write_set);
  lost.mutable_decision()->set_tx_id(Id(3).ToBytes());
  Hear(lost);
  EXPECT_THAT(Kinds(Now()), Contains(proto::ToPrimary::kHold)) << "that of the first loss has ended";
}

TEST_F(SemiPrimaryCoreTest, WhatIsHeldIsAskedForAgainByANewConnection) {
  Enter();
  core_.Hold({1, 700, {3}, 5000}, now_us_);
  Now();
  WelcomeAgain(0);
  const auto actions = Now();
  EXPECT_THAT(Kinds(actions), Contains(proto::ToPrimary::kHold));
  core_.OnApplyEvent(ApplyTrouble{"disk full", true}, now_us_);
  core_.Hold({2, 700, {3}, 5000}, now_us_);
  EXPECT_EQ(SqlState(Now().replies.at(0)), "08006") << "nothing arrives";
}

// What a crash of PostgreSQL takes comes back before anybody commits on top of it.
TEST_F(SemiPrimaryCoreTest, AfterACrashNobodyCommitsBeforeOwnCommitsAreBack) {
  Enter();
  Submit(1, Rows("k"));
  proto::ToSemiPrimary decision;
  decision.mutable_decision()->set_tx_id(Id(1).ToBytes());
  decision.mutable_decision()->set_global_t(5);
  Hear(decision);
  Now();
  Started(0, false, {{5, Id(1)}});  // the worker's session was lost, and nothing else
  EXPECT_FALSE(core_.Status(now_us_).lacks_own);
  Started(0);  // own commit 5 is gone
  EXPECT_TRUE(core_.Status(now_us_).lacks_own);
  Now();
  Submit(2, Rows("l"), 4);
  EXPECT_EQ(SqlState(Now().replies.at(0)), "40001");
  core_.OnApplyEvent(ApplyProgress{generation_, 5, 5, 0, false}, now_us_);
  EXPECT_FALSE(core_.Status(now_us_).lacks_own);
  Submit(3, Rows("l"), 4);
  EXPECT_EQ(SqlState(Now().replies.at(0)), "40001") << "it began before";
  Submit(4, Rows("l"), 5);
  EXPECT_THAT(Kinds(Now()), ElementsAre(proto::ToPrimary::kCertify));
}

// W itself has gone back: own commits below it were forgotten already.
TEST_F(SemiPrimaryCoreTest, AfterACrashThatTookWBackOwnCommitsBelowItAreWaitedFor) {
  Enter(7);
  Started(3);
  Now();
  Submit(1, Rows("k"), 6);
  EXPECT_EQ(SqlState(Now().replies.at(0)), "40001");
  Submit(2, Rows("k"), 7);
  EXPECT_THAT(Kinds(Now()), ElementsAre(proto::ToPrimary::kCertify));
}

TEST_F(SemiPrimaryCoreTest, ADaemonThatDoesNotKnowWhatIsLackingWaitsForWhereThePrimaryIs) {
  Core core({.cluster_id = std::string(16, 'c'),
             .sp_id = kMe,
             .name = "sp1",
             .epochs = kEpochs,
             .may_lack_own = true});
  const auto submit = [&](Ticket ticket, GlobalT watermark) {
    core.Submit({ticket, Id(static_cast<char>(ticket)), {watermark, {}}, Rows("k"), 1}, now_us_);
  };
  core.OnApplyEvent(ApplyStarted{1, 3, false, nullptr, {}}, now_us_);
  submit(1, 3);
  EXPECT_THAT(core.TakeActions().replies, IsEmpty()) << "it waits for the connection";
  proto::ToSemiPrimary message;
  message.set_epoch(kEpoch);
  message.mutable_welcome()->set_closed_t(9);
  for (const EpochStart& one : kEpochs) {
    proto::EpochStart* start = message.mutable_welcome()->add_epochs();
    start->set_history(one.history);
    start->set_start_t(one.start_t);
  }
  core.OnMessage(message, now_us_);
  EXPECT_EQ(SqlState(core.TakeActions().replies.at(0)), "40001");
  submit(2, 9);
  EXPECT_THAT(Kinds(core.TakeActions()), ElementsAre(proto::ToPrimary::kCertify));
}

TEST_F(SemiPrimaryCoreTest, StoppingAnswersEverybody) {
  Enter();
  Submit(1, Rows("k"));
  Now();
  core_.Stop();
  Submit(2, Rows("l"));
  EXPECT_EQ(SqlState(Now().replies.at(0)), "08006");
  core_.GiveUp();
  EXPECT_EQ(SqlState(Now().replies.at(0)), "08007");
  core_.SendGoodbye();
  EXPECT_THAT(Kinds(Now()), ElementsAre(proto::ToPrimary::kGoodbye));
}

TEST_F(SemiPrimaryCoreTest, ALoserIsToldTheForeignKeyByItsName) {
  Enter();
  auto catalog = std::make_shared<TableCatalog>();
  catalog->tables[3] = {3, "public", "parent", {"id"}, {}, {}};
  catalog->foreign_keys[3] = {{"public", "child", "child_p_fkey"}};
  core_.OnApplyEvent(ApplyCatalog{catalog}, now_us_);
  Submit(1, Rows("k"));
  proto::ToSemiPrimary message;
  proto::Decision* decision = message.mutable_decision();
  decision->set_tx_id(Id(1).ToBytes());
  decision->mutable_conflict()->set_table_id(3);
  decision->mutable_conflict()->set_winner_sp_id(kOther);
  decision->mutable_conflict()->set_winner_t(9);
  decision->mutable_conflict()->set_use(proto::USE_SHARED);
  Hear(message);
  const auto replies = Now().replies;
  ASSERT_EQ(replies.size(), 1U);
  const auto& error = std::get<UserError>(replies[0].answer);
  EXPECT_EQ(error.sqlstate, "40001");
  EXPECT_EQ(error.detail,
            "Key (\\x) of table \"public\".\"parent\", to which foreign key \"child_p_fkey\" of table "
            "\"public\".\"child\" refers, was taken away by semi-primary \"sp2\" (global_t 9).");
}

}  // namespace
}  // namespace psp::sp
