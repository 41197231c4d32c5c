#include "semi_primary/submit/commit_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "common/log_line.h"

namespace psp::sp {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr char kA[] = "61616161-6161-6161-6161-616161616161";

TxId Tx(char name) { return *TxId::FromBytes(std::string(16, name)); }

class CommitLogTest : public ::testing::Test {
 protected:
  void Choose(const CommitChoice& choice) {
    log_ = std::make_unique<CommitLog>(choice, "lisbon",
                                       [](SpId sp_id) { return "name of " + std::to_string(sp_id); });
  }
  void Answer(FrontAnswer answer, const CommitTiming& timing, std::int64_t now_us,
              CommitWho who = {Tx('a')}) {
    log_->OnAnswered(CommitEnd(CommitReply{1, std::move(answer), timing, who}), now_us);
  }
  std::vector<std::string> Lines() {
    std::vector<std::string> lines;
    for (const Note& note : log_->TakeNotes()) lines.push_back(EventText(note.event, note.fields));
    return lines;
  }
  static Submission OneRow() {
    auto rows = std::make_shared<proto::WriteSet>();
    rows->add_rows();
    return {1, Tx('a'), {40, {}}, rows, 100};
  }

  std::unique_ptr<CommitLog> log_;
};

TEST_F(CommitLogTest, SaysNothingUnlessAsked) {
  Choose({});
  log_->OnReceived(OneRow(), 1'000);
  log_->OnSent(Tx('a'), 1'150);
  Answer(Committed{41}, {.arrived_us = 1}, 1'000'000);
  log_->OnRemote(42, Tx('b'), 2, 0);
  log_->OnApplied(42, 1'000'000);
  EXPECT_THAT(Lines(), IsEmpty());
}

TEST_F(CommitLogTest, FollowsACommitStepByStep) {
  Choose({.one_in = 1});
  log_->OnReceived(OneRow(), 1'000);
  log_->OnSent(Tx('a'), 1'150);
  Answer(Committed{41},
         {.arrived_us = 1'000,
          .sent_us = 1'150,
          .decided_us = 31'150,
          .parked_us = 0,
          .queue_us = 2'000,
          .certify_us = 5'000},
         31'200);
  const std::string who = std::string("tx=") + kA + " sp=lisbon ";
  EXPECT_THAT(
      Lines(),
      ElementsAre(
          "commit_received " + who + "watermark=40 rows=1 bytes=100",
          std::string("commit_sent tx=") + kA + " sp=lisbon",
          "commit_answered " + who +
              "outcome=committed global_t=41 total_ms=30.200 check_ms=0.150 "
              "away_ms=30.000 primary_parked_ms=0.000 primary_queue_ms=2.000 primary_certify_ms=5.000 "
              "answer_ms=0.050"));
}

TEST_F(CommitLogTest, ALineHasTheTimeOfItsStep) {
  Choose({.one_in = 1});
  Submission submission = OneRow();
  submission.arrived_us = 900;
  log_->OnReceived(submission, 1'000);
  log_->OnSent(Tx('a'), 1'150);
  const std::vector<Note> notes = log_->TakeNotes();
  ASSERT_EQ(notes.size(), 2U);
  EXPECT_EQ(notes[0].at_us, 900);
  EXPECT_EQ(notes[1].at_us, 1'150);
}

TEST_F(CommitLogTest, TellsWhoHasWonAndNotTheKey) {
  Choose({.over_ms = 0});
  Answer(UserError{"40001", "could not serialize access", "Key (id)=(7) …"}, {.arrived_us = 1'000}, 1'100,
         {Tx('a'), 39, 2});
  EXPECT_THAT(Lines(), ElementsAre(std::string("commit_answered tx=") + kA +
                                   " sp=lisbon outcome=lost sqlstate=40001 winner_t=39 "
                                   "winner_sp=\"name of 2\" total_ms=0.100"));
}

TEST_F(CommitLogTest, OnlyTheEndOfASlowCommitIsTold) {
  Choose({.over_ms = 20});
  log_->OnReceived(OneRow(), 1'000);
  log_->OnSent(Tx('a'), 1'150);
  const CommitTiming timing{.arrived_us = 1'000, .sent_us = 1'100};
  Answer(Committed{41}, timing, 20'999);
  EXPECT_THAT(Lines(), IsEmpty());
  Answer(UserError{"08007", "unknown"}, timing, 21'000);
  EXPECT_THAT(Lines(), ElementsAre(std::string("commit_answered tx=") + kA +
                                   " sp=lisbon outcome=in_doubt sqlstate=08007 total_ms=20.000 "
                                   "check_ms=0.100"));
}

TEST_F(CommitLogTest, TellsWhenATransactionOfOthersIsApplied) {
  Choose({.over_ms = 1});
  log_->OnRemote(41, Tx('a'), 2, 1'000);
  log_->OnRemote(43, Tx('b'), 3, 2'500);
  log_->OnApplied(40, 2'600);
  EXPECT_THAT(Lines(), IsEmpty());
  log_->OnApplied(43, 3'000);  // the second one was fast
  EXPECT_THAT(Lines(), ElementsAre(std::string("applied tx=") + kA +
                                   " sp=lisbon from_sp=\"name of 2\" global_t=41 total_ms=2.000"));
}

TEST_F(CommitLogTest, WhatComesAgainIsToldOnce) {
  Choose({.one_in = 1});
  log_->OnRemote(41, Tx('a'), 2, 1'000);
  log_->OnStreamReset();
  log_->OnRemote(41, Tx('a'), 2, 5'000);
  log_->OnApplied(41, 6'000);
  EXPECT_THAT(Lines(), ElementsAre(std::string("applied tx=") + kA +
                                   " sp=lisbon from_sp=\"name of 2\" global_t=41 total_ms=1.000"));
}

}  // namespace
}  // namespace psp::sp
