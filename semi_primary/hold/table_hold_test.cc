#include "semi_primary/hold/table_hold.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace psp::sp {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::uint64_t kTransaction = 700;

HoldRequest Request(Ticket ticket, std::vector<std::uint32_t> table_ids,
                    std::uint64_t transaction = kTransaction) {
  return {ticket, transaction, std::move(table_ids), 5000};
}

proto::HoldReply Reply(std::uint64_t hold_id, GlobalT global_t, bool ended = false) {
  proto::HoldReply reply;
  reply.set_hold_id(hold_id);
  reply.set_global_t(global_t);
  reply.set_ended(ended);
  return reply;
}

// Of each reply: the ticket, and granted, waiting or the SQLSTATE.
std::vector<std::string> Answers(TableHold* hold) {
  std::vector<std::string> answers;
  for (const CommitReply& reply : hold->TakeReplies()) {
    const auto* error = std::get_if<UserError>(&reply.answer);
    const std::string word = error != nullptr                       ? error->sqlstate
                             : std::get<Held>(reply.answer).granted ? "granted"
                                                                    : "waiting";
    answers.push_back(std::to_string(reply.ticket) + " " + word);
  }
  return answers;
}

class TableHoldTest : public testing::Test {
 protected:
  TableHoldTest() { hold_.OnConnected(); }
  TableHold hold_;
};

TEST_F(TableHoldTest, TheAskerGoesOnWhenEverythingUpToTheGrantIsApplied) {
  hold_.Ask(Request(1, {3, 4}), 10, 10, 0);
  const auto messages = hold_.TakeMessages();
  ASSERT_THAT(messages, SizeIs(1));
  EXPECT_EQ(messages[0].hold().transaction(), kTransaction);
  EXPECT_THAT(messages[0].hold().table_ids(), ElementsAre(3, 4));
  EXPECT_EQ(messages[0].hold().timeout_ms(), 5000U);
  hold_.OnTime(100'000);
  EXPECT_THAT(Answers(&hold_), IsEmpty());
  hold_.OnTime(200'000);
  EXPECT_THAT(Answers(&hold_), ElementsAre("1 waiting"));
  hold_.OnReply(Reply(messages[0].hold().hold_id(), 12), 10);
  hold_.Ask(Request(1, {3, 4}), 10, 10, 300'000);
  EXPECT_THAT(hold_.TakeMessages(), IsEmpty()) << "it was asked for";
  hold_.OnApplied(11);
  EXPECT_THAT(Answers(&hold_), IsEmpty());
  hold_.OnApplied(12);
  EXPECT_THAT(Answers(&hold_), ElementsAre("1 granted"));
  hold_.Ask(Request(1, {4}), 12, 12, 400'000);
  EXPECT_THAT(Answers(&hold_), ElementsAre("1 granted")) << "at once";
  EXPECT_THAT(hold_.TakeMessages(), IsEmpty());
}

TEST_F(TableHoldTest, MoreTablesAreAskedForAgain) {
  hold_.Ask(Request(1, {3}), 10, 10, 0);
  hold_.OnReply(Reply(1, 10), 10);
  EXPECT_THAT(Answers(&hold_), ElementsAre("1 granted"));
  hold_.TakeMessages();
  hold_.Ask(Request(1, {4}), 10, 10, 0);
  const auto messages = hold_.TakeMessages();
  ASSERT_THAT(messages, SizeIs(1));
  EXPECT_THAT(messages[0].hold().table_ids(), ElementsAre(3, 4));
  hold_.OnReply(Reply(1, 10), 10);
  EXPECT_THAT(Answers(&hold_), IsEmpty()) << "the answer to the older request";
  hold_.OnReply(Reply(2, 10), 10);
  EXPECT_THAT(Answers(&hold_), ElementsAre("1 granted"));
}

TEST_F(TableHoldTest, TheEndIsTold) {
  hold_.Ask(Request(1, {3}), 10, 10, 0);
  EXPECT_EQ(hold_.transaction(), kTransaction);
  hold_.TakeMessages();
  hold_.OnTransactionEnded(kTransaction + 1);
  EXPECT_EQ(hold_.transaction(), kTransaction);
  hold_.OnTransactionEnded(kTransaction);
  EXPECT_EQ(hold_.transaction(), std::nullopt);
  EXPECT_EQ(hold_.TakeMessages().at(0).end_hold().transaction(), kTransaction);
  hold_.Ask(Request(1, {3}), 10, 10, 0);
  hold_.Ask(Request(2, {3}, kTransaction + 1), 10, 10, 0);
  const auto messages = hold_.TakeMessages();
  ASSERT_THAT(messages, SizeIs(3));
  EXPECT_EQ(messages[1].end_hold().transaction(), kTransaction);
  EXPECT_EQ(messages[2].hold().transaction(), kTransaction + 1);
}

TEST_F(TableHoldTest, WhenItsTimeIsOverTheAskerGoesOn) {
  hold_.Ask(Request(1, {3}), 10, 10, 0);
  hold_.OnReply(Reply(1, 0, true), 10);
  EXPECT_THAT(Answers(&hold_), ElementsAre("1 granted")) << "COMMIT tells whether it lacks rows";
  hold_.TakeMessages();
  hold_.Ask(Request(1, {4}), 10, 10, 0);
  EXPECT_THAT(Answers(&hold_), ElementsAre("1 granted"));
  EXPECT_THAT(hold_.TakeMessages(), IsEmpty()) << "a transaction has one hold";
  hold_.Ask(Request(1, {4}, kTransaction + 1), 10, 10, 0);
  hold_.OnReply(Reply(1, 0, true), 10);
  EXPECT_THAT(Answers(&hold_), IsEmpty()) << "of the last transaction";
}

TEST_F(TableHoldTest, WhoLacksWhatIsCommittedDoesNotAskYet) {
  hold_.Ask(Request(1, {3}), 10, 12, 0);
  EXPECT_THAT(hold_.TakeMessages(), IsEmpty());
  hold_.OnApplied(11);
  hold_.OnConnected();
  EXPECT_THAT(hold_.TakeMessages(), IsEmpty());
  hold_.OnApplied(12);
  EXPECT_THAT(hold_.TakeMessages(), SizeIs(1));
  EXPECT_THAT(Answers(&hold_), IsEmpty());
}

TEST_F(TableHoldTest, WithoutAConnection) {
  hold_.Ask(Request(1, {3}), 10, 10, 0);
  hold_.TakeMessages();
  hold_.OnDisconnected();
  EXPECT_THAT(Answers(&hold_), ElementsAre("1 08006"));
  hold_.Ask(Request(2, {3}), 10, 10, 0);
  EXPECT_THAT(Answers(&hold_), ElementsAre("2 08006"));
  hold_.OnConnected();
  EXPECT_THAT(hold_.TakeMessages().at(0).hold().table_ids(), ElementsAre(3)) << "the transaction may go on";
}

TEST_F(TableHoldTest, TheTablesOfAChangeThatHasLostAreHeldForItsNextAttempt) {
  hold_.OnLost({3, 4}, 10, 12);
  EXPECT_THAT(hold_.TakeMessages(), IsEmpty()) << "others do not wait for one that lacks much";
  hold_.OnApplied(12);
  const auto messages = hold_.TakeMessages();
  ASSERT_THAT(messages, SizeIs(1));
  EXPECT_THAT(messages[0].hold().table_ids(), ElementsAre(3, 4));
  EXPECT_EQ(hold_.transaction(), std::nullopt) << "there is none whose end ends it";
  hold_.OnLost({3}, 13, 13);
  EXPECT_THAT(hold_.TakeMessages(), IsEmpty()) << "it goes on";
  hold_.OnReply(Reply(messages[0].hold().hold_id(), 0, true), 13);
  hold_.OnLost({3}, 13, 13);
  EXPECT_THAT(hold_.TakeMessages().back().hold().table_ids(), ElementsAre(3)) << "its time was over";
}

TEST_F(TableHoldTest, NothingIsHeldForTheNextAttemptOfAChangeThatHasCommitted) {
  hold_.OnLost({}, 10, 10);
  EXPECT_THAT(hold_.TakeMessages(), IsEmpty()) << "no table";
  hold_.OnLost({3}, 10, 10);
  hold_.OnCommitted();
  hold_.TakeMessages();
  hold_.OnConnected();
  EXPECT_THAT(hold_.TakeMessages(), IsEmpty());
  hold_.OnLost({3}, 10, 10);
  EXPECT_THAT(hold_.TakeMessages(), SizeIs(1));
  hold_.OnDisconnected();
  hold_.OnConnected();
  EXPECT_THAT(hold_.TakeMessages(), IsEmpty()) << "the primary has ended it";
  hold_.Ask(Request(1, {3}), 10, 10, 0);
  hold_.OnCommitted();
  EXPECT_EQ(hold_.transaction(), kTransaction) << "its end is told";
}

TEST_F(TableHoldTest, TheNextAttemptMayAskItself) {
  hold_.OnLost({3}, 10, 10);
  hold_.Ask(Request(1, {3}), 10, 10, 0);
  const auto messages = hold_.TakeMessages();
  ASSERT_THAT(messages, SizeIs(3));
  EXPECT_EQ(messages[1].end_hold().transaction(), messages[0].hold().transaction());
  EXPECT_EQ(messages[2].hold().transaction(), kTransaction);
}

TEST_F(TableHoldTest, ALossTakesNoHoldFromAnotherTransaction) {
  hold_.Ask(Request(1, {3}), 10, 10, 0);
  hold_.TakeMessages();
  hold_.OnLost({4}, 10, 10);
  EXPECT_THAT(hold_.TakeMessages(), IsEmpty());
  EXPECT_EQ(hold_.transaction(), kTransaction);
}

TEST_F(TableHoldTest, AnAskerThatHasGoneGetsNoAnswer) {
  hold_.Ask(Request(1, {3}), 10, 10, 0);
  hold_.AskerGone(1);
  hold_.OnReply(Reply(1, 10), 10);
  hold_.OnTime(1'000'000);
  EXPECT_THAT(Answers(&hold_), IsEmpty());
}

}  // namespace
}  // namespace psp::sp
