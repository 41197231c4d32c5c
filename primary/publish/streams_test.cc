#include "primary/publish/streams.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "primary/publish/acknowledgements.h"
#include "primary/publish/encode.h"
#include "proto/psp.pb.h"

namespace psp::primary {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr SpId kMe = 1;
constexpr SpId kOther = 2;
constexpr std::uint64_t kIncarnation = 77;

PublishedPtr Transaction(GlobalT t, SpId sp_id = kOther, std::uint64_t incarnation = kIncarnation,
                         std::size_t bytes = 10) {
  return Encode(t, TxId(), sp_id, incarnation, std::string(bytes, 'w'));
}

proto::Replicate Replicate(const Streams::Send& send) {
  proto::ToSemiPrimary message;
  EXPECT_TRUE(message.ParseFromString(send.message));
  EXPECT_EQ(message.epoch(), 5);
  EXPECT_TRUE(message.has_replicate());
  return message.replicate();
}

std::vector<GlobalT> Numbers(const proto::Replicate& replicate) {
  std::vector<GlobalT> numbers;
  for (const auto& one : replicate.transactions()) numbers.push_back(one.global_t());
  return numbers;
}

Streams Make(GlobalT closed_t, Streams::Limits limits = {}) { return Streams(limits, 5, closed_t); }

TEST(Encode, GivesTheVeryMessage) {
  const auto one =
      Encode(300, *TxId::FromText("00112233-4455-6677-8899-aabbccddeeff"), 4, 1, std::string(1000, 'w'));
  const proto::Replicate replicate = Replicate({1, EncodeReplicate(5, 299, 300, one->full + one->marker)});
  EXPECT_EQ(replicate.from_t(), 299);
  EXPECT_EQ(replicate.closed_t(), 300);
  ASSERT_EQ(replicate.transactions_size(), 2);
  EXPECT_EQ(replicate.transactions(0).write_set(), std::string(1000, 'w'));
  EXPECT_EQ(replicate.transactions(0).sp_id(), 4U);
  EXPECT_EQ(replicate.transactions(0).tx_id().size(), TxId::kSize);
  EXPECT_FALSE(replicate.transactions(1).has_write_set());
  EXPECT_EQ(replicate.transactions(1).global_t(), 300);
}

TEST(Streams, NothingIsSentBeforeAStreamRequest) {
  Streams streams = Make(10);
  EXPECT_THAT(streams.Publish({Transaction(11)}).sends, IsEmpty());
}

// A semi-primary that said Hello twice asked twice for the same place. The first stream brought it to 12, and
// what it acknowledged has left the log, before the second one has read it.
TEST(Streams, WhatTheSpHasAlreadyIsSkippedEvenIfTheLogHasLostIt) {
  Streams streams = Make(14);
  const auto begun = streams.StartFromLog(kMe, kIncarnation, 10);
  ASSERT_THAT(begun.log_reads, SizeIs(1));
  EXPECT_THAT(streams.OnApplied(kMe, 12).sends, IsEmpty());
  const auto after = streams.OnLogChunk({kMe, begun.log_reads[0].stream_id, true, 14, {}});
  EXPECT_THAT(after.refused, IsEmpty());
  ASSERT_THAT(after.log_reads, SizeIs(1));
  EXPECT_EQ(after.log_reads[0].from_t, 12);
  EXPECT_EQ(after.log_reads[0].upto_t, 14);
  // It has not told to have that.
  const auto refused = streams.OnLogChunk({kMe, after.log_reads[0].stream_id, true, 14, {}});
  EXPECT_THAT(refused.refused, ElementsAre(kMe));
}

TEST(Streams, UpToDateSpIsAnsweredAndThenStreamsWithoutAGap) {
  Streams streams = Make(10);
  const auto begun = streams.StartFromLog(kMe, kIncarnation, 10);
  ASSERT_THAT(begun.sends, SizeIs(1));
  EXPECT_EQ(Replicate(begun.sends[0]).from_t(), 10);
  EXPECT_EQ(Replicate(begun.sends[0]).closed_t(), 10);
  const auto first = streams.Publish({Transaction(11), Transaction(14)});
  ASSERT_THAT(first.sends, SizeIs(1));
  EXPECT_EQ(Replicate(first.sends[0]).from_t(), 10);
  EXPECT_EQ(Replicate(first.sends[0]).closed_t(), 14);
  EXPECT_THAT(Numbers(Replicate(first.sends[0])), ElementsAre(11, 14));
  EXPECT_EQ(Replicate(streams.Publish({Transaction(20)}).sends.at(0)).from_t(), 14);
  EXPECT_EQ(streams.closed_t(), 20);
}

TEST(Streams, OwnTransactionIsAMarkerOnlyForTheDaemonThatSentIt) {
  Streams streams = Make(0);
  streams.StartFromLog(kMe, kIncarnation, 0);
  auto sent = streams.Publish({Transaction(1, kMe, kIncarnation), Transaction(2, kMe, kIncarnation - 1)});
  const auto replicate = Replicate(sent.sends.at(0));
  EXPECT_FALSE(replicate.transactions(0).has_write_set());
  EXPECT_TRUE(replicate.transactions(1).has_write_set());
  // The same from memory after a second request: with rows up to today's closed_t.
  sent = streams.StartFromLog(kMe, kIncarnation, 0);
  EXPECT_TRUE(Replicate(sent.sends.at(0)).transactions(0).has_write_set());
  sent = streams.Publish({Transaction(3, kMe, kIncarnation)});
  EXPECT_FALSE(Replicate(sent.sends.at(0)).transactions(0).has_write_set());
}

TEST(Streams, CatchesUpFromTheLogThenFromMemory) {
  Streams streams = Make(100);
  auto actions = streams.StartFromLog(kMe, kIncarnation, 40);
  ASSERT_THAT(actions.log_reads, SizeIs(1));
  EXPECT_EQ(actions.log_reads[0].from_t, 40);
  EXPECT_EQ(actions.log_reads[0].upto_t, 100);
  const std::uint64_t stream_id = actions.log_reads[0].stream_id;
  EXPECT_THAT(streams.Publish({Transaction(101)}).sends, IsEmpty());  // not before its turn

  actions = streams.OnLogChunk({kMe, stream_id, false, 70, {Transaction(50), Transaction(70)}});
  EXPECT_EQ(Replicate(actions.sends.at(0)).from_t(), 40);
  EXPECT_EQ(Replicate(actions.sends.at(0)).closed_t(), 70);
  ASSERT_THAT(actions.log_reads, SizeIs(1));
  EXPECT_EQ(actions.log_reads[0].from_t, 70);

  actions = streams.OnLogChunk({kMe, stream_id, false, 100, {Transaction(100)}});
  ASSERT_THAT(actions.sends, SizeIs(2));
  EXPECT_EQ(Replicate(actions.sends[1]).from_t(), 100);
  EXPECT_THAT(Numbers(Replicate(actions.sends[1])), ElementsAre(101));
  EXPECT_THAT(actions.log_reads, IsEmpty());
}

TEST(Streams, ResultsForAnOlderStreamAreDropped) {
  Streams streams = Make(100);
  const auto old = streams.StartFromLog(kMe, kIncarnation, 40).log_reads.at(0);
  streams.StartFromLog(kMe, kIncarnation, 90);
  EXPECT_THAT(streams.OnLogChunk({kMe, old.stream_id, false, 50, {Transaction(50)}}).sends, IsEmpty());
  streams.Forget(kMe);
  EXPECT_THAT(streams.OnLogChunk({kMe, old.stream_id + 1, false, 100, {}}).sends, IsEmpty());
}

TEST(Streams, TruncatedLogIsRefused) {
  Streams streams = Make(100);
  const auto read = streams.StartFromLog(kMe, kIncarnation, 40).log_reads.at(0);
  EXPECT_THAT(streams.OnLogChunk({kMe, read.stream_id, true, 40, {}}).refused, ElementsAre(kMe));
}

TEST(Streams, SlowSpRestsAndGoesOnFromTheLogWithoutAGap) {
  Streams streams =
      Make(0, {.message_bytes_max = 100, .outstanding_bytes_max = 300, .recent_bytes_max = 500});
  streams.StartFromLog(kMe, kIncarnation, 0);
  GlobalT sent_t = 0;
  for (GlobalT t = 1; t <= 50; ++t) {
    for (const auto& send : streams.Publish({Transaction(t)}).sends) {
      EXPECT_EQ(Replicate(send).from_t(), sent_t);
      sent_t = Replicate(send).closed_t();
    }
  }
  EXPECT_LT(sent_t, 20);  // it rests
  EXPECT_THAT(streams.OnApplied(kMe, 0).log_reads, IsEmpty());
  const auto actions = streams.OnApplied(kMe, sent_t);
  ASSERT_THAT(actions.log_reads, SizeIs(1));
  EXPECT_EQ(actions.log_reads[0].from_t, sent_t);
  EXPECT_EQ(actions.log_reads[0].upto_t, 50);
}

TEST(Streams, LargeBacklogInMemoryIsSplitIntoMessages) {
  Streams streams = Make(0, {.message_bytes_max = 300});
  streams.Publish(
      {Transaction(1, kOther, 1, 80), Transaction(2, kOther, 1, 80), Transaction(3, kOther, 1, 500)});
  GlobalT from_t = 0;
  const auto actions = streams.StartFromLog(kMe, kIncarnation, 0);
  EXPECT_THAT(actions.sends, SizeIs(2));
  for (const auto& send : actions.sends) {
    EXPECT_EQ(Replicate(send).from_t(), from_t);
    from_t = Replicate(send).closed_t();
  }
  EXPECT_EQ(from_t, 3);
}

TEST(Streams, JoinCopiesTheTableThenStreamsFromItsSnapshot) {
  Streams streams = Make(10, {.outstanding_bytes_max = 100});
  auto actions = streams.StartWithCopy(kMe, kIncarnation);
  ASSERT_THAT(actions.copy_reads, SizeIs(1));
  const ReadCopy read = actions.copy_reads[0];
  EXPECT_EQ(read.snapshot_t, 10);
  EXPECT_EQ(read.after, RowKey());
  EXPECT_THAT(streams.Publish({Transaction(11)}).sends, IsEmpty());

  actions = streams.OnCopyChunk({kMe, read.stream_id, std::string(200, 'c'), RowKey{3, "k"}, 7, false});
  EXPECT_THAT(actions.sends, SizeIs(1));
  EXPECT_THAT(actions.copy_reads, IsEmpty());  // as much is under way as may be
  EXPECT_THAT(streams.OnApplied(kMe, 1000).copy_reads, IsEmpty());
  EXPECT_THAT(streams.OnCopied(kMe, 6).copy_reads, IsEmpty());
  actions = streams.OnCopied(kMe, 7);
  ASSERT_THAT(actions.copy_reads, SizeIs(1));
  EXPECT_EQ(actions.copy_reads[0].after, (RowKey{3, "k"}));
  EXPECT_EQ(actions.copy_reads[0].rows_done, 7);

  actions = streams.OnCopyChunk({kMe, read.stream_id, "last", RowKey{3, "k"}, 7, true});
  ASSERT_THAT(actions.sends, SizeIs(2));
  EXPECT_EQ(actions.sends[0].message, "last");
  EXPECT_EQ(Replicate(actions.sends[1]).from_t(), 10);
  EXPECT_THAT(Numbers(Replicate(actions.sends[1])), ElementsAre(11));
}

TEST(Acknowledgements, WhatAJoinerHasSaysNothingBeforeItsSnapshot) {
  Acknowledgements acks;
  acks.OnJoin(2, 40);
  acks.OnAck(2, 39);
  EXPECT_THAT(acks.TakeNews().acks, IsEmpty());
  acks.OnAck(2, 41);
  acks.OnAck(2, 40);
  EXPECT_THAT(acks.TakeNews().acks, ElementsAre(testing::Pair(2, 41)));
  EXPECT_THAT(acks.TakeNews().acks, IsEmpty());
}

TEST(Acknowledgements, JoinersAreKnownAfterARestart) {
  Acknowledgements acks;
  acks.Restore(2, 40);
  acks.OnAck(2, 39);
  EXPECT_THAT(acks.TakeNews().acks, IsEmpty());
  acks.OnAck(2, 40);
  EXPECT_THAT(acks.TakeNews().acks, ElementsAre(testing::Pair(2, 40)));
}

// All of the first one was under way when the second was asked for.
TEST(Acknowledgements, LogIsKeptForTheOldestCopyThatTheJoinerMayComplete) {
  Acknowledgements acks;
  acks.OnJoin(1, 23);
  EXPECT_THAT(acks.TakeNews().joins, ElementsAre(testing::Pair(1, 23)));
  acks.OnJoin(1, 26);
  EXPECT_THAT(acks.TakeNews().joins, ElementsAre(testing::Pair(1, 23)));
  acks.OnAck(1, 23);
  EXPECT_THAT(acks.TakeNews().acks, ElementsAre(testing::Pair(1, 23)));
  acks.OnJoin(1, 30);
  EXPECT_THAT(acks.TakeNews().joins, ElementsAre(testing::Pair(1, 30))) << "the first join is over";
}

TEST(Acknowledgements, NewsThatCouldNotBeWrittenComeAgainButForNewerOnes) {
  Acknowledgements acks;
  acks.OnJoin(1, 50);
  acks.OnAck(2, 10);
  acks.OnAck(3, 7);
  const auto lost = acks.TakeNews();
  EXPECT_THAT(lost.joins, ElementsAre(testing::Pair(1, 50)));
  acks.OnJoin(4, 60);
  acks.OnAck(2, 12);
  acks.PutBack(lost);
  const auto again = acks.TakeNews();
  EXPECT_THAT(again.joins, ElementsAre(testing::Pair(1, 50), testing::Pair(4, 60)));
  EXPECT_THAT(again.acks, ElementsAre(testing::Pair(2, 12), testing::Pair(3, 7)));
}

TEST(Acknowledgements, NothingIsWrittenOfWhoWasReleased) {
  Acknowledgements acks;
  acks.OnJoin(1, 50);
  acks.OnAck(2, 10);
  acks.OnReleased(1);
  acks.OnReleased(2);
  const auto news = acks.TakeNews();
  EXPECT_THAT(news.joins, IsEmpty());
  EXPECT_THAT(news.acks, IsEmpty());
}

}  // namespace
}  // namespace psp::primary
