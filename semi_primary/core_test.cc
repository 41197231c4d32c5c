#include "semi_primary/core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace psp {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

constexpr SpId kMe = 1;
constexpr SpId kOther = 2;
constexpr Epoch kEpoch = 7;
constexpr std::int64_t kTimeoutUs = 3'000'000;
const EpochStarts kEpochs = {{"older", 1}, {"now", 101}};

TxId Id(char number) { return *TxId::FromBytes(std::string(TxId::kSize, number)); }

WriteSetPtr Rows(const std::string& key) {
  auto write_set = std::make_shared<proto::WriteSet>();
  write_set->add_rows()->set_table_id(1);
  write_set->mutable_rows(0)->set_key(key);
  write_set->mutable_rows(0)->set_image("image");
  return write_set;
}

class SemiPrimaryCoreTest : public testing::Test {
 protected:
  SemiPrimaryCore::Actions Now() { return core_.TakeActions(); }

  void Hear(proto::ToSemiPrimary message, Epoch epoch = kEpoch) {
    message.set_epoch(epoch);
    core_.OnMessage(message, now_us_);
  }
  void Welcome(GlobalT closed_t = 0, Epoch epoch = kEpoch, const EpochStarts& epochs = kEpochs) {
    proto::ToSemiPrimary message;
    message.mutable_welcome()->set_closed_t(closed_t);
    message.mutable_welcome()->set_tx_log_retention_s(3600);
    for (const SpId sp_id : {kMe, kOther}) {
      proto::SemiPrimaryName* name = message.mutable_welcome()->add_semi_primaries();
      name->set_sp_id(sp_id);
      name->set_name("sp" + std::to_string(sp_id));
    }
    for (const EpochStart& one : epochs) {
      proto::EpochStart* start = message.mutable_welcome()->add_epochs();
      start->set_history(one.history);
      start->set_start_t(one.start_t);
    }
    Hear(message, epoch);
  }
  void Started(GlobalT watermark, bool joining = false, const Commits& own = {}) {
    core_.OnApplyEvent(ApplyStarted{++generation_, watermark, joining, nullptr, own}, now_us_);
  }
  // The primary's daemon has begun anew.
  void WelcomeAgain(GlobalT closed_t, const EpochStarts& epochs = kEpochs) {
    proto::ToSemiPrimary message;
    message.mutable_welcome()->set_say_hello(true);
    Hear(message, kEpoch + 1);
    core_.OnTime(now_us_);
    Now();
    Welcome(closed_t, kEpoch + 1, epochs);
  }
  // What Hello says after the connection was lost.
  proto::Hello LostAndHello() {
    now_us_ += kTimeoutUs + 1;
    core_.OnTime(now_us_);
    const auto actions = Now();
    return actions.messages.empty() ? proto::Hello() : actions.messages.back().hello();
  }
  static std::vector<std::tuple<GlobalT, std::string, std::string>> Own(const proto::Hello& hello) {
    std::vector<std::tuple<GlobalT, std::string, std::string>> own;
    for (const auto& one : hello.own_commits()) own.emplace_back(one.global_t(), one.tx_id(), one.history());
    return own;
  }
  // Connected and streaming.
  void Enter(GlobalT watermark = 0, bool joining = false) {
    Started(watermark, joining);
    core_.OnTime(now_us_);
    Welcome(watermark);
    Now();
  }
  void Submit(Ticket ticket, const WriteSetPtr& rows, GlobalT watermark = 0) {
    core_.Submit({ticket, Id(static_cast<char>(ticket)), {watermark, {}}, rows, rows->ByteSizeLong()},
                 now_us_);
  }
  static proto::ToSemiPrimary Replicate(GlobalT from_t, GlobalT closed_t) {
    proto::ToSemiPrimary message;
    message.mutable_replicate()->set_from_t(from_t);
    message.mutable_replicate()->set_closed_t(closed_t);
    return message;
  }
  static void Add(proto::ToSemiPrimary* message, GlobalT global_t, SpId sp_id, char id,
                  const WriteSetPtr& rows) {
    proto::Transaction* transaction = message->mutable_replicate()->add_transactions();
    transaction->set_global_t(global_t);
    transaction->set_sp_id(sp_id);
    transaction->set_tx_id(Id(id).ToBytes());
    if (rows) transaction->set_write_set(rows->SerializeAsString());
  }
  static proto::ToSemiPrimary Chunk(GlobalT snapshot_t, int rows, std::int64_t rows_done, bool last = false) {
    proto::ToSemiPrimary message;
    proto::SnapshotChunk* chunk = message.mutable_snapshot_chunk();
    chunk->set_snapshot_t(snapshot_t);
    for (int i = 0; i < rows; ++i) chunk->add_rows()->set_table_id(1);
    chunk->set_rows_done(rows_done);
    chunk->set_last(last);
    if (last) chunk->set_complete_t(snapshot_t);
    return message;
  }
  static std::vector<proto::ToPrimary::BodyCase> Kinds(const SemiPrimaryCore::Actions& actions) {
    std::vector<proto::ToPrimary::BodyCase> kinds;
    for (const proto::ToPrimary& message : actions.messages) kinds.push_back(message.body_case());
    return kinds;
  }
  static std::string Message(const Submissions::Reply& reply) {
    return std::get<UserError>(reply.answer).message;
  }
  static std::string SqlState(const Submissions::Reply& reply) {
    const auto* error = std::get_if<UserError>(&reply.answer);
    return error == nullptr ? "" : error->sqlstate;
  }

  std::int64_t now_us_ = 1'000'000;
  std::uint64_t generation_ = 0;
  SemiPrimaryCore core_{{.cluster_id = std::string(16, 'c'),
                         .sp_id = kMe,
                         .name = "sp1",
                         .incarnation = 42,
                         .watermark = 0,
                         .epochs = kEpochs,
                         .heartbeat_timeout_us = kTimeoutUs}};
};

TEST_F(SemiPrimaryCoreTest, SaysHelloUntilItIsWelcomedAndThenRecovers) {
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
  EXPECT_EQ(core_.primary_remembers_ms(), 0) << "not told yet";
  Welcome(5);
  EXPECT_EQ(core_.primary_remembers_ms(), 3'600'000);
  const auto recover = Now();
  ASSERT_THAT(Kinds(recover), ElementsAre(proto::ToPrimary::kRecover));
  EXPECT_EQ(recover.messages[0].recover().from(), 3);
  EXPECT_FALSE(recover.messages[0].recover().whole_table());
  EXPECT_EQ(recover.messages[0].epoch(), kEpoch);
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
  EXPECT_THAT(Kinds(again), ElementsAre(proto::ToPrimary::kRecover, proto::ToPrimary::kCertify));
  EXPECT_EQ(again.messages[1].epoch(), kEpoch + 1);
  EXPECT_THAT(again.replies, IsEmpty());
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
  last.mutable_snapshot_chunk()->set_complete_t(120);
  Hear(last);
  EXPECT_EQ(LostAndHello().newest_t(), 0) << "the rows that were changed up to 120 are missing";
  Welcome(100);
  Hear(Replicate(100, 120));
  EXPECT_EQ(LostAndHello().newest_t(), 120);
}

// Whose log will not bring the rows that the copy has left out.
TEST_F(SemiPrimaryCoreTest, CopyOfWhatThePrimaryHasLostBeginsAnew) {
  Enter(90, true);
  auto last = Chunk(110, 1, 1, true);
  last.mutable_snapshot_chunk()->set_complete_t(120);
  Hear(last);
  const EpochStarts grown = {{"older", 1}, {"now", 101}, {"next", 121}};
  WelcomeAgain(120, grown);
  core_.OnApplyEvent(EpochsSaved{grown}, now_us_);
  EXPECT_FALSE(Now().messages.at(0).recover().whole_table()) << "nothing is lost";
  const EpochStarts gap = {{"older", 1}, {"now", 101}, {"restored", 120}};
  proto::ToSemiPrimary say_hello;
  say_hello.mutable_welcome()->set_say_hello(true);
  Hear(say_hello);
  Now();
  Welcome(130, kEpoch + 2, gap);
  core_.OnApplyEvent(EpochsSaved{gap}, now_us_);
  EXPECT_TRUE(Now().messages.at(0).recover().whole_table());
  EXPECT_FALSE(core_.fatal());
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
    EXPECT_FALSE(message.has_recover() || message.has_certify()) << message.ShortDebugString();
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
  EXPECT_THAT(Kinds(actions), ElementsAre(proto::ToPrimary::kRecover, proto::ToPrimary::kCertify,
                                          proto::ToPrimary::kCertify));
  Welcome(110, kEpoch + 1, grown);
  EXPECT_EQ(Now().save_epochs, std::nullopt) << "they are there";
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

// T (own, 5) and then a remote transaction that had T in its snapshot and wrote the same key: had it been
// looked at first, it would have doomed T.
TEST_F(SemiPrimaryCoreTest, OwnMarkerIsResolvedBeforeWhatFollowsInTheStream) {
  Enter();
  Submit(1, Rows("k"));
  Now();
  auto message = Replicate(0, 6);
  Add(&message, 5, kMe, 1, nullptr);
  Add(&message, 6, kOther, 'a', Rows("k"));
  Hear(message);
  const auto actions = Now();
  ASSERT_THAT(actions.replies, SizeIs(1));
  EXPECT_EQ(std::get<Submissions::Committed>(actions.replies[0].answer).global_t, 5);
  ASSERT_THAT(actions.steps, SizeIs(1));
  EXPECT_NE(actions.steps[0].transactions.at(0).write_set, nullptr) << "if the backend dies, they are needed";
}

TEST_F(SemiPrimaryCoreTest, GapRecoversOnceAndOldMessagesAreDropped) {
  Enter(4);
  Hear(Replicate(4, 4));
  Now();
  Hear(Replicate(8, 9));
  const auto gap = Now();
  ASSERT_THAT(Kinds(gap), ElementsAre(proto::ToPrimary::kRecover));
  EXPECT_EQ(gap.messages[0].recover().from(), 4);
  Hear(Replicate(9, 10));
  EXPECT_THAT(Now().messages, IsEmpty()) << "it was asked for already";
  Hear(Replicate(2, 3));
  EXPECT_THAT(Now().steps, IsEmpty());
  Hear(Replicate(4, 10));
  EXPECT_THAT(Now().steps, SizeIs(1));
}

TEST_F(SemiPrimaryCoreTest, MalformedTransactionStopsTheStreamForGood) {
  Enter();
  auto message = Replicate(0, 1);
  Add(&message, 1, kOther, 'a', nullptr);
  Hear(message);
  EXPECT_THAT(Now().steps, IsEmpty());
  EXPECT_EQ(core_.Status(now_us_).state, "failed");
  Submit(1, Rows("k"));
  EXPECT_EQ(SqlState(Now().replies.at(0)), "08006");
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
  EXPECT_THAT(Kinds(Now()), ElementsAre(proto::ToPrimary::kRecover));
  Hear(message);
  actions = Now();
  EXPECT_THAT(actions.messages, IsEmpty());
  EXPECT_THAT(actions.steps, SizeIs(1));
}

TEST_F(SemiPrimaryCoreTest, AcknowledgesOnlyWhatIsDurableAndAgainAfterWelcome) {
  Enter();
  core_.OnApplyEvent(ApplyProgress{generation_, 9, 5, 0, false}, now_us_);
  auto actions = Now();
  ASSERT_THAT(Kinds(actions), ElementsAre(proto::ToPrimary::kAck));
  EXPECT_EQ(actions.messages[0].ack().watermark(), 5);
  core_.OnApplyEvent(ApplyProgress{generation_, 10, 5, 0, false}, now_us_);
  EXPECT_THAT(Now().messages, IsEmpty());
  WelcomeAgain(0);
  core_.OnTime(now_us_);
  actions = Now();
  ASSERT_FALSE(actions.messages.empty());
  EXPECT_EQ(actions.messages.back().ack().watermark(), 5) << "the last one may have been lost";
}

TEST_F(SemiPrimaryCoreTest, CopyIsTakenFromItsFirstRowToItsLast) {
  Enter(0, true);
  Hear(Chunk(10, 2, 2));
  Hear(Chunk(10, 1, 3));
  Hear(Chunk(10, 0, 3, true));
  Hear(Replicate(10, 11));
  const auto actions = Now();
  ASSERT_THAT(actions.steps, SizeIs(4));
  EXPECT_TRUE(actions.steps[0].copy_begins);
  EXPECT_FALSE(actions.steps[1].copy_begins);
  EXPECT_FALSE(actions.steps[1].copy_is_complete);
  EXPECT_TRUE(actions.steps[2].copy_is_complete);
  EXPECT_EQ(actions.steps[3].closed_t, 11);
}

TEST_F(SemiPrimaryCoreTest, CopyOfAnEmptyTableBeginsAndEndsAtOnce) {
  Enter(0, true);
  Hear(Chunk(10, 0, 0, true));
  const auto actions = Now();
  ASSERT_THAT(actions.steps, SizeIs(1));
  EXPECT_TRUE(actions.steps[0].copy_begins && actions.steps[0].copy_is_complete);
}

// PostgreSQL has crashed, the copy was asked for again; what is under way of the old one must not pass for
// it.
TEST_F(SemiPrimaryCoreTest, RestOfAnInterruptedCopyIsDropped) {
  Enter(0, true);
  Hear(Chunk(10, 2, 2));
  Now();
  Started(0, true);
  const auto recover = Now();
  ASSERT_THAT(Kinds(recover), ElementsAre(proto::ToPrimary::kRecover));
  EXPECT_TRUE(recover.messages[0].recover().whole_table());
  Hear(Chunk(10, 1, 3));
  Hear(Chunk(10, 0, 3, true));
  EXPECT_THAT(Now().steps, IsEmpty());
  Hear(Chunk(12, 2, 2));
  Hear(Chunk(12, 0, 2, true));
  const auto actions = Now();
  ASSERT_THAT(actions.steps, SizeIs(2));
  EXPECT_TRUE(actions.steps[0].copy_begins);
}

// It has the first copy, and the stream begins where the second one ends: it asks for what lies between.
TEST_F(SemiPrimaryCoreTest, EndOfASecondCopyThatIsFurtherIsAGapInTheStream) {
  Enter(0, true);
  Hear(Chunk(10, 2, 2));
  Hear(Chunk(10, 0, 2, true));
  Now();
  Hear(Chunk(11, 2, 2));
  Hear(Chunk(10, 0, 2, true));
  EXPECT_THAT(Now().messages, IsEmpty());
  Hear(Chunk(11, 0, 2, true));
  const auto actions = Now();
  ASSERT_THAT(Kinds(actions), ElementsAre(proto::ToPrimary::kRecover));
  EXPECT_EQ(actions.messages[0].recover().from(), 10);
  EXPECT_FALSE(actions.messages[0].recover().whole_table());
}

// The primary has restarted: the new copy is as of later and may not have rows that the first part had.
TEST_F(SemiPrimaryCoreTest, SecondCopyBeginsAnew) {
  Enter(0, true);
  Hear(Chunk(10, 2, 2));
  WelcomeAgain(12);
  EXPECT_TRUE(Now().messages.at(0).recover().whole_table());
  Hear(Chunk(12, 1, 1), kEpoch + 1);
  const auto actions = Now();
  ASSERT_THAT(actions.steps, SizeIs(1));
  EXPECT_TRUE(actions.steps[0].copy_begins);
}

TEST_F(SemiPrimaryCoreTest, ItEndsWhenItsDatabaseIsAnotherOne) {
  Enter();
  core_.OnApplyEvent(ApplyFailed{"another database"}, now_us_);
  EXPECT_EQ(core_.exit_code(), 2);
  EXPECT_EQ(core_.Status(now_us_).last_error, "another database");
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
  EXPECT_THAT(Kinds(Now()), ElementsAre(proto::ToPrimary::kRecover));
  EXPECT_EQ(core_.Status(now_us_).state, "failed");
  core_.OnApplyEvent(ApplyTrouble{}, now_us_);
  Submit(2, Rows("k"));
  EXPECT_THAT(Kinds(Now()), ElementsAre(proto::ToPrimary::kCertify));
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
  SemiPrimaryCore core({.cluster_id = std::string(16, 'c'),
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

// Whoever has sent it may send it right the next time.
TEST_F(SemiPrimaryCoreTest, AMalformedTransactionIsAskedForAgain) {
  Enter();
  proto::ToSemiPrimary message = Replicate(0, 1);
  Add(&message, 1, kOther, 'x', nullptr);
  Hear(message);
  EXPECT_EQ(core_.Status(now_us_).state, "failed");
  EXPECT_THAT(Now().steps, IsEmpty());
  now_us_ += 1'000'000;
  core_.OnTime(now_us_);
  EXPECT_THAT(Kinds(Now()), Not(Contains(proto::ToPrimary::kRecover)));
  for (int seconds = 0; seconds < 5; ++seconds) {
    now_us_ += 1'000'001;
    proto::ToSemiPrimary alive;
    alive.mutable_heartbeat_reply();
    Hear(alive);
    core_.OnTime(now_us_);
  }
  EXPECT_THAT(Kinds(Now()), Contains(proto::ToPrimary::kRecover));
  message = Replicate(0, 1);
  Add(&message, 1, kOther, 'x', Rows("k"));
  Hear(message);
  EXPECT_THAT(Now().steps, SizeIs(1));
  EXPECT_NE(core_.Status(now_us_).state, "failed");
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
  core_.SayGoodbye();
  EXPECT_THAT(Kinds(Now()), ElementsAre(proto::ToPrimary::kGoodbye));
}

}  // namespace
}  // namespace psp
