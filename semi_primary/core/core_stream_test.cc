// The core, the stream and the copy of a joining semi-primary.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "semi_primary/testing/core_fixture.h"

namespace psp::sp {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

// Whose log will not bring the rows that the copy has left out.
TEST_F(SemiPrimaryCoreTest, CopyOfWhatThePrimaryHasLostBeginsAnew) {
  Enter(90, true);
  auto last = Chunk(110, 1, 1, true);
  last.mutable_copy_chunk()->set_complete_t(120);
  Hear(last);
  const EpochStarts grown = {{"older", 1}, {"now", 101}, {"next", 121}};
  WelcomeAgain(120, grown);
  core_.OnApplyEvent(EpochsSaved{grown}, now_us_);
  EXPECT_FALSE(Now().messages.at(0).stream_request().with_copy()) << "nothing is lost";
  const EpochStarts gap = {{"older", 1}, {"now", 101}, {"restored", 120}};
  proto::ToSemiPrimary say_hello;
  say_hello.mutable_welcome()->set_say_hello(true);
  Hear(say_hello);
  Now();
  Welcome(130, kEpoch + 2, gap);
  core_.OnApplyEvent(EpochsSaved{gap}, now_us_);
  EXPECT_TRUE(Now().messages.at(0).stream_request().with_copy());
  EXPECT_FALSE(core_.fatal());
}

// The primary would take it for one that has joined, and would not keep the log for its next copy.
TEST_F(SemiPrimaryCoreTest, AJoiningOneAcknowledgesNothing) {
  Enter(-1, true);
  core_.OnTime(now_us_);
  EXPECT_THAT(Kinds(Now()), Not(Contains(proto::ToPrimary::kAck)));
  Hear(Chunk(0, 2, 2));
  core_.OnApplyEvent(ApplyProgress{generation_, -1, -1, 2, true}, now_us_);
  core_.OnTime(now_us_);
  EXPECT_THAT(Kinds(Now()), Not(Contains(proto::ToPrimary::kAck)));
  Hear(Chunk(0, 0, 2, true));
  core_.OnApplyEvent(ApplyProgress{generation_, 0, 0, 2, false}, now_us_);
  EXPECT_THAT(Kinds(Now()), Contains(proto::ToPrimary::kAck));
}

// The primary may have been restored: it would leave out what it takes for applied.
TEST_F(SemiPrimaryCoreTest, TheWatermarkOfAnOlderCopyIsNotTold) {
  Enter(90, true);
  Now();
  const auto told_after = [this](const ApplyProgress& progress) {
    core_.OnApplyEvent(progress, now_us_);
    const Core::Actions actions = Now();
    EXPECT_THAT(Kinds(actions), Contains(proto::ToPrimary::kHeartbeat));
    GlobalT applied = 0;
    for (const proto::ToPrimary& message : actions.messages) {
      if (message.has_heartbeat()) applied = message.heartbeat().applied();
    }
    return applied;
  };
  EXPECT_EQ(told_after({generation_, 90, -1, 0, true, 0}), -1);
  EXPECT_EQ(told_after({generation_, 50, -1, 1, true, 1}), 50);
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
  EXPECT_EQ(std::get<Committed>(actions.replies[0].answer).global_t, 5);
  ASSERT_THAT(actions.steps, SizeIs(1));
  EXPECT_NE(actions.steps[0].transactions.at(0).write_set, nullptr) << "if the backend dies, they are needed";
}

TEST_F(SemiPrimaryCoreTest, GapIsAskedForOnceAndOldMessagesAreDropped) {
  Enter(4);
  Hear(Replicate(4, 4));
  Now();
  Hear(Replicate(8, 9));
  const auto gap = Now();
  ASSERT_THAT(Kinds(gap), ElementsAre(proto::ToPrimary::kStreamRequest));
  EXPECT_EQ(gap.messages[0].stream_request().from(), 4);
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
  const auto request = Now();
  ASSERT_THAT(Kinds(request), ElementsAre(proto::ToPrimary::kStreamRequest));
  EXPECT_TRUE(request.messages[0].stream_request().with_copy());
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
  ASSERT_THAT(Kinds(actions), ElementsAre(proto::ToPrimary::kStreamRequest));
  EXPECT_EQ(actions.messages[0].stream_request().from(), 10);
  EXPECT_FALSE(actions.messages[0].stream_request().with_copy());
}

// The primary has restarted: the new copy is as of later and may not have rows that the first part had.
TEST_F(SemiPrimaryCoreTest, SecondCopyBeginsAnew) {
  Enter(0, true);
  Hear(Chunk(10, 2, 2));
  WelcomeAgain(12);
  EXPECT_TRUE(Now().messages.at(0).stream_request().with_copy());
  Hear(Chunk(12, 1, 1), kEpoch + 1);
  const auto actions = Now();
  ASSERT_THAT(actions.steps, SizeIs(1));
  EXPECT_TRUE(actions.steps[0].copy_begins);
}

// The primary may send it right the next time.
TEST_F(SemiPrimaryCoreTest, AMalformedTransactionIsAskedForAgain) {
  Enter();
  proto::ToSemiPrimary message = Replicate(0, 1);
  Add(&message, 1, kOther, 'x', nullptr);
  Hear(message);
  EXPECT_EQ(core_.Status(now_us_).state, "failed");
  EXPECT_THAT(Now().steps, IsEmpty());
  now_us_ += 1'000'000;
  core_.OnTime(now_us_);
  EXPECT_THAT(Kinds(Now()), Not(Contains(proto::ToPrimary::kStreamRequest)));
  for (int seconds = 0; seconds < 5; ++seconds) {
    now_us_ += 1'000'001;
    proto::ToSemiPrimary alive;
    alive.mutable_heartbeat_reply();
    Hear(alive);
    core_.OnTime(now_us_);
  }
  EXPECT_THAT(Kinds(Now()), Contains(proto::ToPrimary::kStreamRequest));
  message = Replicate(0, 1);
  Add(&message, 1, kOther, 'x', Rows("k"));
  Hear(message);
  EXPECT_THAT(Now().steps, SizeIs(1));
  EXPECT_NE(core_.Status(now_us_).state, "failed");
}

TEST_F(SemiPrimaryCoreTest, TheStatusTellsWhatIsReservedForIt) {
  Enter();
  proto::ToSemiPrimary alive;
  proto::Reservation* reservation = alive.mutable_heartbeat_reply()->add_reservations();
  reservation->set_keys(2);
  reservation->set_age_us(3000);
  Hear(alive);
  EXPECT_EQ(core_.Status(now_us_).reserved, "a row (2 keys, for 3 ms, 0 wait)");
  alive.mutable_heartbeat_reply()->clear_reservations();
  Hear(alive);
  EXPECT_EQ(core_.Status(now_us_).reserved, "");
}

}  // namespace
}  // namespace psp::sp
