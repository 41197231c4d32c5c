#include "semi_primary/submit/submissions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace psp::sp {
namespace {

constexpr std::int64_t kSecond = 1'000'000;

TxId Tx(char name) { return *TxId::FromBytes(std::string(16, name)); }

WriteSetPtr Row(const std::string& key) {
  auto write_set = std::make_shared<proto::WriteSet>();
  proto::Row* row = write_set->add_rows();
  row->set_table_id(1);
  row->set_key(key);
  return write_set;
}

class SubmissionsTest : public ::testing::Test {
 protected:
  void Submit(char name, Ticket ticket, const std::string& key, std::int64_t now_us = 0,
              std::size_t write_set_bytes = 100) {
    submissions_.Submit({ticket, Tx(name), {10, {}}, Row(key), write_set_bytes}, now_us);
  }
  void Commit(char name, GlobalT global_t) {
    proto::Decision decision;
    decision.set_tx_id(Tx(name).ToBytes());
    decision.set_global_t(global_t);
    submissions_.OnDecision(decision, 0);
  }
  void Abort(char name) {
    proto::Decision decision;
    decision.set_tx_id(Tx(name).ToBytes());
    decision.mutable_conflict()->set_winner_t(11);
    submissions_.OnDecision(decision, 0);
  }
  void Refuse(char name, bool older_catalog, const std::string& sqlstate = "") {
    proto::Decision decision;
    decision.set_tx_id(Tx(name).ToBytes());
    decision.set_error("why");
    decision.set_older_catalog(older_catalog);
    decision.set_sqlstate(sqlstate);
    submissions_.OnDecision(decision, 0);
  }
  void TellOutcome(char name, GlobalT global_t, bool has_lost = false) {
    proto::OutcomeReply reply;
    reply.set_tx_id(Tx(name).ToBytes());
    reply.set_global_t(global_t);
    if (has_lost) reply.mutable_conflict()->set_winner_t(11);
    submissions_.OnOutcomeReply(reply);
  }
  // "ticket:answer" of all replies, joined by spaces.
  std::string Replies() {
    std::string text;
    for (const auto& reply : submissions_.TakeReplies()) {
      text += (text.empty() ? "" : " ") + std::to_string(reply.ticket) + ":";
      if (const auto* committed = std::get_if<Committed>(&reply.answer)) {
        text += std::to_string(committed->global_t);
      } else if (const auto* outcome = std::get_if<Outcome>(&reply.answer)) {
        const bool is_in = outcome->is == Outcome::Is::kCommitted;
        const char* other = outcome->is == Outcome::Is::kForgotten ? "forgotten" : "aborted";
        text += is_in ? "committed" : outcome->lost ? outcome->lost->sqlstate : other;
      } else {
        text += std::get<UserError>(reply.answer).sqlstate;
      }
    }
    return text;
  }
  static std::string KeysOf(const proto::Lost& lost) {
    std::string text = " of";
    for (const proto::Row& row : lost.keys().rows()) text += " " + row.key() + (row.has_image() ? "!" : "");
    for (const proto::KeyUse& use : lost.uses().keys()) text += " " + use.key() + "?";
    return text;
  }
  // "certify x", "outcome x", "lost KEY of KEY…" of all messages.
  std::string Sent() {
    std::string text;
    for (const auto& message : submissions_.TakeMessages()) {
      text += text.empty() ? "" : " ";
      text += message.has_certify() ? "certify " + message.certify().tx_id().substr(0, 1)
              : message.has_lost()  ? "lost " + message.lost().conflict().key() + KeysOf(message.lost())
                                    : "outcome " + message.outcome_request().tx_id().substr(0, 1);
    }
    return text;
  }

  Submissions submissions_{{.commit_timeout_us = 10 * kSecond,
                            .disconnected_grace_us = kSecond,
                            .waiting_bytes_max = 1000,
                            .names = [](std::uint32_t) { return KeyNames{}; },
                            .sp_name = [](SpId) { return std::string("sp2"); },
                            .on_decided =
                                [this](const proto::WriteSet& write_set, const RowKey* lost) {
                                  decided_ += write_set.rows(0).key() + (lost ? "-" + lost->key : "+") + " ";
                                }}};
  std::string decided_;  // the key that was written, and + or the key that was lost
};

TEST_F(SubmissionsTest, Commits) {
  submissions_.OnConnected(0);
  Submit('a', 1, "k");
  EXPECT_EQ(Sent(), "certify a");
  Commit('a', 12);
  EXPECT_EQ(Replies(), "1:12");
  Commit('a', 12);  // may come twice
  EXPECT_EQ(Replies(), "");
  EXPECT_NE(submissions_.WriteSetOf(Tx('a')), nullptr);
  submissions_.OnApplied(12, 0);
  EXPECT_EQ(submissions_.WriteSetOf(Tx('a')), nullptr);
  EXPECT_EQ(submissions_.waiting(), 0U);
}

TEST(SubmissionsWithoutGraceTest, WaitForAPrimaryThatIsAwayForPlannedWork) {
  Submissions::Options options;
  options.disconnected_grace_us = 0;
  options.waiting_bytes_max = 1000;
  Submissions submissions(options);
  submissions.OnAway(0, 30 * kSecond);
  submissions.Submit({Ticket{1}, Tx('a'), {10, {}}, Row("k"), 100, nullptr}, kSecond);
  submissions.OnTime(2 * kSecond);
  EXPECT_THAT(submissions.TakeReplies(), testing::IsEmpty());
  submissions.OnTime(30 * kSecond);
  EXPECT_THAT(submissions.TakeReplies(), testing::SizeIs(1));
}

TEST_F(SubmissionsTest, KeyUsesAreCertifiedHereAndAtThePrimary) {
  submissions_.OnConnected(0);
  auto uses = std::make_shared<proto::KeyUses>();
  uses->add_keys()->set_key("parent");
  uses->mutable_keys(0)->set_table_id(1);
  submissions_.Submit({Ticket{1}, Tx('a'), {10, {}}, Row("k"), 100, uses}, 0);
  Submit('b', 2, "l");
  const auto messages = submissions_.TakeMessages();
  ASSERT_EQ(messages.size(), 2U);
  ASSERT_EQ(messages[0].certify().uses().keys_size(), 1);
  EXPECT_EQ(messages[0].certify().uses().keys(0).key(), "parent");
  EXPECT_FALSE(messages[1].certify().has_uses());
  submissions_.OnRemoteTransaction(11, Tx('r'), 2, Row("parent"), 0);
  EXPECT_EQ(Replies(), "1:40001") << "the row was read";
  submissions_.Submit({Ticket{3}, Tx('c'), {10, {}}, Row("m"), 100, uses}, 0);
  EXPECT_EQ(Replies(), "3:40001");
  EXPECT_EQ(Sent(), "lost parent of m parent?") << "the primary counts it";
}

TEST_F(SubmissionsTest, EachDecisionIsToldOnce) {
  submissions_.OnConnected(0);
  Submit('a', 1, "k");
  Commit('a', 12);
  Commit('a', 12);
  EXPECT_EQ(decided_, "k+ ");
  decided_ = "";
  Submit('b', 2, "k");
  submissions_.OnRemoteTransaction(13, Tx('r'), 2, Row("k"), 0);  // dooms b, before the primary does
  Abort('b');
  EXPECT_EQ(decided_, "k-k ");
  decided_ = "";
  Submit('c', 3, "k");  // loses against what has arrived
  EXPECT_EQ(decided_, "k-k ");
  decided_ = "";
  Submit('d', 4, "other");
  submissions_.BackendGone(4);
  Abort('d');
  EXPECT_EQ(decided_, "") << "nobody retries it";
}

TEST_F(SubmissionsTest, RefusalsTellWhetherTheTransactionMayRunAgain) {
  submissions_.OnConnected(0);
  Submit('a', 1, "k");
  Refuse('a', false);
  EXPECT_EQ(Replies(), "1:40000");
  Submit('b', 2, "k");
  Refuse('b', true);
  EXPECT_EQ(Replies(), "2:40001");
  Submit('c', 3, "k");
  Refuse('c', false, "54000");
  EXPECT_EQ(Replies(), "3:54000");
  Submit('d', 4, "k");
  Refuse('d', false, "22021");
  EXPECT_EQ(Replies(), "4:40000");
}

TEST_F(SubmissionsTest, ASchemaChangeThatHasLostIsToldWhy) {
  submissions_.OnConnected(0);
  const auto answer = [this](char name, proto::EntryKind kind) {
    auto write_set = std::make_shared<proto::WriteSet>(*Row("k"));
    write_set->set_kind(kind);
    submissions_.Submit({Ticket{1}, Tx(name), {10, {}}, write_set, 100}, 0);
    Refuse(name, true);
    return std::get<UserError>(submissions_.TakeReplies().at(0).answer);
  };
  const UserError rows = answer('a', proto::ENTRY_ROWS);
  const UserError change = answer('b', proto::ENTRY_SCHEMA_CHANGE);
  EXPECT_EQ(rows.sqlstate, "40001");
  EXPECT_EQ(change.sqlstate, "40001");
  EXPECT_NE(change.message, rows.message);
  EXPECT_EQ(change.detail, "why");
}

TEST_F(SubmissionsTest, AbortIsForgotten) {
  submissions_.OnConnected(0);
  Submit('a', 1, "k");
  Abort('a');
  EXPECT_EQ(Replies(), "1:40001");
  EXPECT_EQ(submissions_.WriteSetOf(Tx('a')), nullptr);
}

TEST_F(SubmissionsTest, UnsentEndsWith08006AfterTheGrace) {
  Submit('a', 1, "k");
  submissions_.OnTime(kSecond - 1);
  EXPECT_EQ(Replies(), "");
  submissions_.OnTime(kSecond);
  EXPECT_EQ(Replies(), "1:08006");
  submissions_.OnConnected(0);
  EXPECT_EQ(Sent(), "");
}

TEST_F(SubmissionsTest, ThePrimaryThatAsksToWaitIsWaitedFor) {
  Submit('a', 1, "k");
  for (int half_seconds = 1; half_seconds < 20; ++half_seconds) {
    submissions_.OnAskedToWait(half_seconds * kSecond / 2);
    submissions_.OnTime(half_seconds * kSecond / 2 + kSecond / 4);
    EXPECT_EQ(Replies(), "") << half_seconds;
  }
  submissions_.OnAskedToWait(10 * kSecond);
  submissions_.OnTime(10 * kSecond);
  EXPECT_EQ(Replies(), "1:08006") << "as long as a COMMIT may wait at all";
}

TEST_F(SubmissionsTest, UnsentIsSentWhenThePrimaryComesBackInTime) {
  Submit('a', 1, "k");
  submissions_.OnConnected(0);
  EXPECT_EQ(Sent(), "certify a");
}

TEST_F(SubmissionsTest, SentWithoutAnswerIsUnknownAndItsWriteSetStays) {
  submissions_.OnConnected(0);
  Submit('a', 1, "k");
  submissions_.OnDisconnected();
  submissions_.OnTime(10 * kSecond + 100);
  EXPECT_EQ(Replies(), "1:08007");
  Sent();
  submissions_.OnConnected(0);
  EXPECT_EQ(Sent(), "outcome a");
  TellOutcome('a', 12);
  EXPECT_EQ(Replies(), "");
  EXPECT_NE(submissions_.WriteSetOf(Tx('a')), nullptr);
  submissions_.OnApplied(12, 0);
  EXPECT_EQ(submissions_.WriteSetOf(Tx('a')), nullptr);
}

TEST_F(SubmissionsTest, ALargeWriteSetMayTakeLonger) {
  submissions_.OnConnected(0);
  Submit('a', 1, "k", 0, 3'000'000);
  submissions_.OnTime(13 * kSecond - 1);
  EXPECT_EQ(Replies(), "");
  submissions_.OnTime(13 * kSecond);
  EXPECT_EQ(Replies(), "1:08007");
}

TEST_F(SubmissionsTest, EverythingWaitingIsSentAgain) {
  submissions_.OnConnected(0);
  Submit('a', 1, "k");
  Sent();
  submissions_.OnDisconnected();
  submissions_.OnConnected(0);
  EXPECT_EQ(Sent(), "certify a");
}

TEST_F(SubmissionsTest, ArrivingRemoteDoomsAtOnce) {
  submissions_.OnConnected(0);
  Submit('a', 1, "k");
  submissions_.OnRemoteTransaction(11, Tx('r'), 2, Row("k"), 0);
  EXPECT_EQ(Replies(), "1:40001");
  Abort('a');
  EXPECT_EQ(Replies(), "");
  EXPECT_EQ(submissions_.WriteSetOf(Tx('a')), nullptr);
}

TEST_F(SubmissionsTest, NewCommitConflictsWithWhatArrived) {
  submissions_.OnConnected(0);
  submissions_.OnRemoteTransaction(11, Tx('r'), 2, Row("k"), 0);
  Submit('a', 1, "k");
  EXPECT_EQ(Replies(), "1:40001");
  EXPECT_EQ(Sent(), "lost k of k") << "the primary counts it";
  submissions_.OnDisconnected();
  Submit('a', 1, "k");
  EXPECT_EQ(Replies(), "1:40001");
  submissions_.OnConnected(0);
  EXPECT_EQ(Sent(), "") << "nobody has to know it later";
  submissions_.OnApplied(11, 0);
  Submit('b', 2, "k");
  EXPECT_EQ(Sent(), "certify b");
}

TEST_F(SubmissionsTest, OwnMarkerResolvesBeforeALaterWriterCanDoom) {
  submissions_.OnConnected(0);
  Submit('a', 1, "k");
  submissions_.OnOwnTransaction(Tx('a'), 11);
  submissions_.OnRemoteTransaction(12, Tx('r'), 2, Row("k"), 0);
  EXPECT_EQ(Replies(), "1:11");
  Commit('a', 11);
  EXPECT_EQ(Replies(), "");
}

TEST_F(SubmissionsTest, BackendThatDiesLeavesItsWriteSetUntilTheDecision) {
  submissions_.OnConnected(0);
  Submit('a', 1, "k");
  submissions_.BackendGone(1);
  EXPECT_NE(submissions_.WriteSetOf(Tx('a')), nullptr);
  Commit('a', 11);
  EXPECT_EQ(Replies(), "");
  EXPECT_NE(submissions_.WriteSetOf(Tx('a')), nullptr);
  submissions_.OnApplied(11, 0);
  EXPECT_EQ(submissions_.WriteSetOf(Tx('a')), nullptr);
}

TEST_F(SubmissionsTest, BackendThatDiesBeforeSendingLeavesNothing) {
  Submit('a', 1, "k");
  submissions_.BackendGone(1);
  submissions_.OnConnected(0);
  EXPECT_EQ(Sent(), "");
}

TEST_F(SubmissionsTest, OutcomeQuestions) {
  submissions_.OnConnected(0);
  submissions_.AskOutcome(5, Tx('x'), 0);
  submissions_.AskOutcome(6, Tx('x'), 0);
  EXPECT_EQ(Sent(), "outcome x outcome x");
  TellOutcome('x', 0);
  EXPECT_EQ(Replies().size(), std::string("5:aborted 6:aborted").size());
  submissions_.AskOutcome(8, Tx('x'), 0);
  TellOutcome('x', 0, true);
  EXPECT_EQ(Replies(), "8:40001") << "the primary knows that it lost";
  Sent();
  submissions_.AskOutcome(7, Tx('y'), 0);
  submissions_.OnTime(10 * kSecond);
  EXPECT_EQ(Replies(), "7:08006");
}

TEST_F(SubmissionsTest, Bounds) {
  submissions_.OnConnected(0);
  for (Ticket ticket = 1; ticket <= 10; ++ticket)
    Submit(static_cast<char>('a' + ticket), ticket, std::to_string(ticket));
  EXPECT_EQ(Replies(), "");
  Submit('z', 99, "z");
  EXPECT_EQ(Replies(), "99:53200");
  Commit('b', 11);
  submissions_.OnApplied(11, 0);
  Replies();
  Submit('z', 99, "z");
  EXPECT_EQ(Replies(), "");
  Submit('z', 100, "z");
  EXPECT_EQ(Replies(), "100:53200");
}

TEST_F(SubmissionsTest, TwiceTheSameTxId) {
  submissions_.OnConnected(0);
  Submit('a', 1, "k");
  Submit('a', 2, "l");
  EXPECT_EQ(Replies(), "2:55000");
}

TEST_F(SubmissionsTest, StopRefusesWhatWasNotSentAndWaitsForTheRest) {
  submissions_.OnConnected(0);
  Submit('a', 1, "k");
  submissions_.OnDisconnected();
  Submit('b', 2, "l");
  submissions_.Stop();
  EXPECT_EQ(Replies(), "2:08006");
  Submit('c', 3, "m");
  EXPECT_EQ(Replies(), "3:08006");
  EXPECT_EQ(submissions_.waiting(), 1U);
}

TEST_F(SubmissionsTest, ADecisionTellsWhereTheTimeWent) {
  submissions_.OnConnected(0);
  Submission submission{1, Tx('a'), {10, {}}, Row("k"), 100};
  submission.arrived_us = 500;
  submissions_.Submit(submission, 600);
  proto::Decision decision;
  decision.set_tx_id(Tx('a').ToBytes());
  decision.set_global_t(11);
  decision.set_parked_us(150);
  decision.set_queue_us(200);
  decision.set_certify_us(300);
  submissions_.OnDecision(decision, 1'600);
  const auto replies = submissions_.TakeReplies();
  ASSERT_EQ(replies.size(), 1U);
  submissions_.OnAnswered(CommitEnd(replies[0]), 1'650);
  const CommitTimes& times = submissions_.times();
  EXPECT_DOUBLE_EQ(times.check.sum(), 100e-6);
  EXPECT_DOUBLE_EQ(times.network.sum(), 500e-6);
  EXPECT_DOUBLE_EQ(times.parked.sum(), 150e-6);
  EXPECT_DOUBLE_EQ(times.queue.sum(), 50e-6);
  EXPECT_DOUBLE_EQ(times.certify.sum(), 300e-6);
  EXPECT_DOUBLE_EQ(times.answer.sum(), 50e-6);
  EXPECT_DOUBLE_EQ(times.committed.sum(), 1'150e-6);
  EXPECT_EQ(times.recent.Sums(1'700).parts.Whole(), 1'150);
}

TEST_F(SubmissionsTest, AnUnknownOutcomeIsCounted) {
  submissions_.OnConnected(0);
  Submit('a', 1, "k");
  submissions_.OnTime(11 * kSecond);
  EXPECT_EQ(submissions_.counters().in_doubt_total, 1U);
  submissions_.OnDisconnected();
  Submit('b', 2, "l", 20 * kSecond);
  submissions_.OnTime(22 * kSecond);  // nothing was sent
  EXPECT_EQ(submissions_.counters().in_doubt_total, 1U);
  EXPECT_EQ(submissions_.counters().aborts_total, 2U);
}

}  // namespace
}  // namespace psp::sp
