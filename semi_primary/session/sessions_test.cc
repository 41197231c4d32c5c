#include "semi_primary/session/sessions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace psp::sp {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;
using Kind = proto::ClientRequest;
using Told = proto::ClientReply;
using Status = TransactionState::Status;

constexpr SpId kMe = 258;
constexpr std::int64_t kTimeoutUs = 10'000'000;

TxId Id(char number, SpId sp_id = kMe) {
  std::string bytes(12, number);
  for (const int shift : {24, 16, 8, 0}) bytes.push_back(static_cast<char>(sp_id >> shift & 0xFF));
  return *TxId::FromBytes(bytes);
}

class SessionsTest : public testing::Test {
 protected:
  explicit SessionsTest(bool wait_for_apply = true)
      : sessions_({.sp_id = kMe,
                   .wait_for_apply = wait_for_apply,
                   .write_set_bytes_max = 1000,
                   .commit_timeout_us = kTimeoutUs,
                   .transactions_max = 3}) {
    sessions_.OnApplyStarted();
    sessions_.OnJobResult(PendingListed{}, now_us_);
    Now();
  }

  const Sessions::Actions& Now() { return now_ = sessions_.TakeActions(); }

  const Sessions::Actions& Request(Kind::Kind kind, const TxId& tx_id, std::uint64_t request_id = 1,
                                   const ClientRoute& route = "client") {
    proto::ClientRequest request;
    request.set_request_id(request_id);
    request.set_kind(kind);
    request.set_tx_id(tx_id.ToBytes());
    sessions_.OnRequest(route, request, now_us_);
    return Now();
  }
  const Sessions::Actions& Result(JobResult result) {
    sessions_.OnJobResult(std::move(result), now_us_);
    return Now();
  }
  const Sessions::Actions& Taken(const TxId& tx_id, TransactionState state, std::size_t image_bytes = 1) {
    CommitRequestTaken taken{
        .tx_id = tx_id, .state = std::move(state), .watermark = 5, .seen = {7}, .write_set = {}};
    if (taken.state.status == Status::kWaiting) {
      auto write_set = std::make_shared<proto::WriteSet>();
      for (const std::uint32_t table_id : {2, 1, 2}) {
        write_set->add_rows()->set_table_id(table_id);
        write_set->mutable_rows(write_set->rows_size() - 1)->set_image(std::string(image_bytes, 'i'));
      }
      taken.write_set = write_set;
    }
    return Result(std::move(taken));
  }
  // The ticket of a transaction that was requested and taken.
  Ticket Submitted(const TxId& tx_id, std::uint64_t request_id = 1) {
    Request(Kind::COMMIT, tx_id, request_id);
    Taken(tx_id, {Status::kWaiting});
    EXPECT_THAT(now_.submissions, SizeIs(1));
    return now_.submissions.empty() ? 0 : now_.submissions[0].ticket;
  }
  const Sessions::Actions& Tick(std::int64_t us) {
    now_us_ += us;
    sessions_.OnTime(now_us_);
    return Now();
  }
  // Statuses of the replies, in order.
  std::vector<Told::Status> Statuses() const {
    std::vector<Told::Status> statuses;
    for (const Sessions::Reply& reply : now_.replies) statuses.push_back(reply.message.status());
    return statuses;
  }
  std::string SqlState() const { return now_.replies.empty() ? "" : now_.replies[0].message.sqlstate(); }
  template <class T>
  const T* OnlyJob() const {
    return now_.jobs.size() == 1 ? std::get_if<T>(&now_.jobs[0]) : nullptr;
  }

  std::int64_t now_us_ = 1'000'000;
  Sessions sessions_;
  Sessions::Actions now_;
};

class SessionsThatDoNotWaitTest : public SessionsTest {
 protected:
  SessionsThatDoNotWaitTest() : SessionsTest(false) {}
};

TEST_F(SessionsTest, ACommitIsTakenSubmittedAppliedAndAnswered) {
  ASSERT_NE((Request(Kind::COMMIT, Id('a'), 42), OnlyJob<TakeCommitRequest>()), nullptr);
  Taken(Id('a'), {Status::kWaiting});
  ASSERT_THAT(now_.submissions, SizeIs(1));
  EXPECT_EQ(now_.submissions[0].snapshot.watermark, 5);
  EXPECT_THAT(now_.submissions[0].snapshot.seen, ElementsAre(7));
  sessions_.OnCommitted(now_.submissions[0].ticket, 9);
  Now();
  EXPECT_THAT(now_.replies, IsEmpty()) << "it cannot be read here yet";
  ASSERT_NE(OnlyJob<Apply>(), nullptr);
  EXPECT_THAT(OnlyJob<Apply>()->table_ids, ElementsAre(1, 2));
  Result(ApplyTried{Id('a'), 9, true});
  ASSERT_THAT(Statuses(), ElementsAre(Told::COMMITTED));
  EXPECT_EQ(now_.replies[0].route, "client");
  EXPECT_EQ(now_.replies[0].message.request_id(), 42U);
  EXPECT_EQ(now_.replies[0].message.global_t(), 9);
  EXPECT_EQ(now_.replies[0].message.tx_id(), Id('a').ToBytes());
  EXPECT_EQ(sessions_.jobs(), 0U);
}

TEST_F(SessionsThatDoNotWaitTest, ItIsAnsweredWhenItIsDecided) {
  sessions_.OnCommitted(Submitted(Id('a')), 9);
  Now();
  EXPECT_THAT(Statuses(), ElementsAre(Told::COMMITTED));
  EXPECT_NE(OnlyJob<Apply>(), nullptr);
  Request(Kind::COMMIT, Id('a'), 2);
  EXPECT_THAT(Statuses(), ElementsAre(Told::COMMITTED)) << "while it is being applied";
  Request(Kind::OUTCOME, Id('a'), 3);
  EXPECT_THAT(Statuses(), ElementsAre(Told::COMMITTED));
}

TEST_F(SessionsTest, TwoRequestsForOneTransactionGetOneDecision) {
  Request(Kind::COMMIT, Id('a'), 1, "first");
  Request(Kind::COMMIT, Id('a'), 1, "second");
  EXPECT_THAT(now_.jobs, IsEmpty());
  Request(Kind::COMMIT, Id('a'), 1, "first");  // again, since it heard nothing
  Taken(Id('a'), {Status::kWaiting});
  ASSERT_THAT(now_.submissions, SizeIs(1));
  sessions_.OnCommitted(now_.submissions[0].ticket, 9);
  Now();
  Result(ApplyTried{Id('a'), 9, true});
  EXPECT_THAT(Statuses(), ElementsAre(Told::COMMITTED, Told::COMMITTED));
}

TEST_F(SessionsTest, ALostOneIsAnsweredAtOnceAndWrittenDown) {
  const UserError lost{"40001", "could not serialize", "Key", "again"};
  sessions_.OnError(Submitted(Id('a')), lost, now_us_);
  Now();
  ASSERT_THAT(Statuses(), ElementsAre(Told::ABORTED));
  EXPECT_EQ(SqlState(), "40001");
  EXPECT_EQ(now_.replies[0].message.detail(), "Key");
  ASSERT_NE(OnlyJob<Abort>(), nullptr);
  EXPECT_EQ(OnlyJob<Abort>()->reason, lost);
  Request(Kind::COMMIT, Id('a'), 2);  // before it is written
  EXPECT_THAT(Statuses(), ElementsAre(Told::ABORTED));
  Request(Kind::OUTCOME, Id('a'), 3);
  EXPECT_THAT(Statuses(), ElementsAre(Told::ABORTED));
  Result(AbortWritten{Id('a')});
  EXPECT_EQ(sessions_.jobs(), 0U);
}

TEST_F(SessionsTest, WhatIsFinishedIsAnsweredFromTheLog) {
  Request(Kind::COMMIT, Id('a'));
  Taken(Id('a'), {Status::kCommitted, 0});
  EXPECT_THAT(Statuses(), ElementsAre(Told::COMMITTED));
  Request(Kind::COMMIT, Id('b'));
  Taken(Id('b'), {Status::kAborted, 0, {"40001", "lost"}});
  EXPECT_THAT(Statuses(), ElementsAre(Told::ABORTED));
  EXPECT_EQ(SqlState(), "40001");
  EXPECT_THAT(now_.submissions, IsEmpty());
}

TEST_F(SessionsTest, AnotherSemiPrimarysTransactionIsNotAskedAbout) {
  Request(Kind::COMMIT, Id('a', kMe + 1));
  Taken(Id('a', kMe + 1), {Status::kUnknown});
  EXPECT_THAT(Statuses(), ElementsAre(Told::FAILED));
  EXPECT_EQ(SqlState(), "25P01");
  EXPECT_THAT(now_.questions, IsEmpty()) << "the question would make it aborted";
  Request(Kind::OUTCOME, Id('a', kMe + 1));
  Result(Looked{Id('a', kMe + 1), {"client", 1}, {}, {}});
  EXPECT_EQ(SqlState(), "25P01");
  EXPECT_THAT(now_.questions, IsEmpty());
}

TEST_F(SessionsTest, AFinishedOneThatIsAskedAgainIsNotToldAsWaiting) {
  Request(Kind::COMMIT, Id('a'), 1);  // again: it is committed, which only the database knows
  ASSERT_NE((Request(Kind::OUTCOME, Id('a'), 2), OnlyJob<Look>()), nullptr);
  Result(Looked{Id('a'), {"client", 2}, {Status::kCommitted, 9}, {}});
  EXPECT_THAT(Statuses(), ElementsAre(Told::COMMITTED));
  Taken(Id('a'), {Status::kCommitted, 9});
  EXPECT_THAT(Statuses(), ElementsAre(Told::COMMITTED));
}

TEST_F(SessionsTest, AnOwnOneThatIsNotKnownIsLookedUpInThePrimarysLog) {
  Request(Kind::COMMIT, Id('a'));
  Taken(Id('a'), {Status::kUnknown});
  ASSERT_THAT(now_.questions, SizeIs(1));
  sessions_.OnOutcome(now_.questions[0].ticket, {});
  Now();
  EXPECT_THAT(Statuses(), ElementsAre(Told::ABORTED));
  EXPECT_EQ(SqlState(), "40000");

  Request(Kind::COMMIT, Id('b'));
  Taken(Id('b'), {Status::kUnknown});
  sessions_.OnOutcome(now_.questions[0].ticket, {Outcome::Is::kCommitted, 8});
  Now();
  ASSERT_NE(OnlyJob<Apply>(), nullptr) << "its row here was lost, perhaps its data, too";
  Result(ApplyTried{Id('b'), 8, true});
  EXPECT_THAT(Statuses(), ElementsAre(Told::COMMITTED));
}

TEST_F(SessionsTest, WhatThePrimaryHasForgottenIsNotToldAsAborted) {
  Request(Kind::COMMIT, Id('a'));
  Taken(Id('a'), {Status::kUnknown});
  ASSERT_THAT(now_.questions, SizeIs(1));
  sessions_.OnOutcome(now_.questions[0].ticket, {Outcome::Is::kForgotten});
  EXPECT_THAT(Now().jobs, IsEmpty());
  EXPECT_THAT(Statuses(), ElementsAre(Told::FAILED)) << "it may have been committed";
  EXPECT_EQ(SqlState(), "25P01");
  Request(Kind::OUTCOME, Id('a'));
  EXPECT_THAT(Result(Looked{Id('a'), {"client", 1}, {}, {}}).questions, SizeIs(1)) << "every time";
}

TEST_F(SessionsTest, APendingOneThatIsForgottenHasNeverCommitted) {
  ASSERT_THAT(Result(PendingListed{{Id('a')}}).questions, SizeIs(1));
  sessions_.OnOutcome(now_.questions[0].ticket, {Outcome::Is::kForgotten});
  ASSERT_NE((Now(), OnlyJob<Abort>()), nullptr) << "the primary keeps what this semi-primary has not applied";
}

TEST_F(SessionsTest, WhileThePrimaryIsAwayOnlyPendingOnesAreAskedAboutAgain) {
  Request(Kind::COMMIT, Id('a'));
  Taken(Id('a'), {Status::kUnknown});
  ASSERT_THAT(now_.questions, SizeIs(1));
  sessions_.OnError(now_.questions[0].ticket, {"08006", "no answer"}, now_us_);
  EXPECT_THAT(Now().questions, IsEmpty()) << "who wants to know sends the request again";
  EXPECT_EQ(SqlState(), "57P03");
  EXPECT_EQ(sessions_.jobs(), 0);
  ASSERT_THAT(Result(PendingListed{{Id('b')}}).questions, SizeIs(1));
  sessions_.OnError(now_.questions[0].ticket, {"08006", "no answer"}, now_us_);
  EXPECT_THAT(Now().questions, SizeIs(1));
}

TEST_F(SessionsTest, ARefusedRequestLeavesTheTransactionAsItWas) {
  Request(Kind::COMMIT, Id('a'));
  Result(CommitRequestFailed{Id('a'), {"25001", "still open"}});
  EXPECT_THAT(Statuses(), ElementsAre(Told::FAILED));
  EXPECT_EQ(SqlState(), "25001");
  EXPECT_NE((Request(Kind::COMMIT, Id('a')), OnlyJob<TakeCommitRequest>()), nullptr);
}

TEST_F(SessionsTest, LostTemporaryRowsAreWaitedFor) {
  sessions_.OnCommitted(Submitted(Id('a')), 9);
  Now();
  Result(ApplyTried{Id('a'), 9, false});
  EXPECT_THAT(now_.replies, IsEmpty());
  EXPECT_THAT(Tick(1000).jobs, IsEmpty());
  EXPECT_NE((Tick(1'000'000), OnlyJob<Apply>()), nullptr);
  EXPECT_THAT(Tick(1'000'000).jobs, IsEmpty()) << "one at a time";
  Result(ApplyTried{Id('a'), 9, true});
  EXPECT_THAT(Statuses(), ElementsAre(Told::COMMITTED));
}

TEST_F(SessionsTest, PendingOnesAreAskedAboutByThemselves) {
  sessions_.OnApplyStarted();
  ASSERT_NE((Now(), OnlyJob<ListPending>()), nullptr);
  Result(PendingListed{{Id('a'), Id('b')}});
  ASSERT_THAT(now_.questions, SizeIs(2));
  const auto questions = now_.questions;
  sessions_.OnOutcome(questions[0].ticket, {Outcome::Is::kAborted, 0, UserError{"40001", "it lost"}});
  ASSERT_NE((Now(), OnlyJob<Abort>()), nullptr);
  EXPECT_EQ(OnlyJob<Abort>()->reason.sqlstate, "40001");
  sessions_.OnOutcome(questions[1].ticket, {Outcome::Is::kCommitted, 4});
  EXPECT_NE((Now(), OnlyJob<Apply>()), nullptr);
  Request(Kind::COMMIT, Id('b'));
  Result(ApplyTried{Id('b'), 4, true});
  EXPECT_THAT(Statuses(), ElementsAre(Told::COMMITTED));
}

TEST_F(SessionsTest, InDoubtItIsToldSoAndThePrimaryIsAsked) {
  const Ticket ticket = Submitted(Id('a'));
  sessions_.OnError(ticket, {"08007", "unknown"}, now_us_);
  Now();
  EXPECT_THAT(Statuses(), ElementsAre(Told::FAILED));
  EXPECT_EQ(SqlState(), "08007");
  ASSERT_THAT(now_.questions, SizeIs(1));
  const Ticket question = now_.questions[0].ticket;
  Request(Kind::COMMIT, Id('a'));
  EXPECT_THAT(Tick(kTimeoutUs).replies, SizeIs(1)) << "08007 again";
  sessions_.OnError(question, {"08006", "no answer"}, now_us_);
  ASSERT_THAT(Now().questions, SizeIs(1)) << "for as long as it takes";
  Request(Kind::COMMIT, Id('a'));
  sessions_.OnCommitted(ticket, 9);
  EXPECT_THAT(Now().jobs, IsEmpty()) << "nobody waits by the old ticket";
}

TEST_F(SessionsTest, WhatWasNeverSentIsAborted) {
  sessions_.OnError(Submitted(Id('a')), {"08006", "psp: not connected"}, now_us_);
  Now();
  EXPECT_THAT(Statuses(), ElementsAre(Told::ABORTED));
  EXPECT_NE(OnlyJob<Abort>(), nullptr);
}

TEST_F(SessionsTest, TooLargeAWriteSetIsAborted) {
  Request(Kind::COMMIT, Id('a'));
  Taken(Id('a'), {Status::kWaiting}, 2000);
  EXPECT_THAT(now_.submissions, IsEmpty());
  EXPECT_THAT(Statuses(), ElementsAre(Told::ABORTED));
  EXPECT_EQ(SqlState(), "54000");
}

TEST_F(SessionsTest, QuestionsAndAborts) {
  Request(Kind::OUTCOME, Id('a'), 4);
  ASSERT_NE(OnlyJob<Look>(), nullptr);
  EXPECT_FALSE(OnlyJob<Look>()->abort);
  Result(Looked{Id('a'), {"client", 4}, {Status::kOpen}, {}});
  EXPECT_THAT(Statuses(), ElementsAre(Told::RUNNING));
  Request(Kind::ABORT, Id('a'), 5);
  ASSERT_NE(OnlyJob<Look>(), nullptr);
  EXPECT_TRUE(OnlyJob<Look>()->abort);
  Result(Looked{Id('a'), {"client", 5}, {Status::kAborted, 0, {"40000", "by its client"}}, {}});
  EXPECT_THAT(Statuses(), ElementsAre(Told::ABORTED));
  Submitted(Id('b'));
  Request(Kind::ABORT, Id('b'));
  EXPECT_THAT(Statuses(), ElementsAre(Told::WAITING)) << "too late";
  EXPECT_THAT(now_.jobs, IsEmpty());
}

TEST_F(SessionsTest, AFinishedOneIsAskedAboutWhileItsCommitIsRequestedOnceMore) {
  Request(Kind::COMMIT, Id('a'));
  Request(Kind::OUTCOME, Id('a'), 4);
  EXPECT_THAT(now_.replies, IsEmpty()) << "it may have been told COMMITTED before";
  ASSERT_NE(OnlyJob<Look>(), nullptr);
  Result(Looked{Id('a'), {"client", 4}, {Status::kCommitted, 9}, {}});
  EXPECT_THAT(Statuses(), ElementsAre(Told::COMMITTED));
}

TEST_F(SessionsTest, OneThatIsBeingAppliedIsToldAsCommittedOnly) {
  Request(Kind::OUTCOME, Id('a'), 4);
  const Ticket ticket = Submitted(Id('a'));
  sessions_.OnCommitted(ticket, 9);
  Request(Kind::OUTCOME, Id('a'), 5);
  Result(Looked{Id('a'), {"client", 4}, {Status::kWaiting}, {}});
  EXPECT_THAT(now_.replies, IsEmpty());
  Result(ApplyTried{Id('a'), 9, true});
  EXPECT_THAT(Statuses(), ElementsAre(Told::COMMITTED, Told::COMMITTED, Told::COMMITTED));
}

TEST_F(SessionsTest, MalformedRequests) {
  proto::ClientRequest request;
  request.set_tx_id("short");
  request.set_kind(Kind::COMMIT);
  sessions_.OnRequest("client", request, now_us_);
  Now();
  EXPECT_EQ(SqlState(), "08P01");
  Request(Kind::UNSPECIFIED, Id('a'));
  EXPECT_EQ(SqlState(), "08P01");
  EXPECT_THAT(now_.jobs, IsEmpty());
}

TEST_F(SessionsTest, BoundsAndTheEnd) {
  for (const char number : {'a', 'b', 'c'}) EXPECT_THAT(Request(Kind::COMMIT, Id(number)).jobs, SizeIs(1));
  Request(Kind::COMMIT, Id('d'));
  EXPECT_EQ(SqlState(), "53300");
  for (const char number : {'e', 'f', 'g'}) EXPECT_THAT(Request(Kind::OUTCOME, Id(number)).jobs, SizeIs(1));
  Request(Kind::OUTCOME, Id('h'));
  EXPECT_EQ(SqlState(), "53300");
  sessions_.Stop();
  Request(Kind::COMMIT, Id('i'));
  EXPECT_EQ(SqlState(), "57P03");
}

TEST(SessionsAtTheStartTest, NothingIsTakenBeforeTheDatabaseIsReady) {
  Sessions sessions({.sp_id = kMe});
  proto::ClientRequest request;
  request.set_tx_id(Id('a').ToBytes());
  request.set_kind(Kind::COMMIT);
  sessions.OnRequest("client", request, 0);
  const auto actions = sessions.TakeActions();
  ASSERT_THAT(actions.replies, SizeIs(1));
  EXPECT_EQ(actions.replies[0].message.sqlstate(), "57P03");
}

}  // namespace
}  // namespace psp::sp
