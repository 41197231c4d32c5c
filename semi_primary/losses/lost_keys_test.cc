#include "semi_primary/losses/lost_keys.h"

#include <gtest/gtest.h>

#include "common/pg_binary.h"
#include "embedded/constants.h"

namespace psp::sp {
namespace {

constexpr std::int64_t kSecond = 1'000'000;
constexpr std::int64_t kHour = 3600 * kSecond;

std::string Image(std::string_view id, std::string_view balance, std::string_view note) {
  std::string image;
  AppendRecord(&image, {{kOidText, id}, {kOidText, balance}, {kOidText, note}});
  return image;
}

Loss Of(const std::string& key, SpId winner = 2, std::int64_t spent_us = 0, std::string image = "") {
  return {{1, key}, proto::LOSS_ROW, winner, spent_us, std::move(image)};
}

class LostKeysTest : public ::testing::Test {
 protected:
  // "key:losses" of a window, the most losses first.
  std::string Ranking(std::size_t window, std::int64_t now_us, std::size_t keys_max = 5) {
    std::string text;
    const std::vector<LostKeys::Window> windows = keys_.Rank(keys_max, now_us);
    for (const LostKeys::Ranked& one : windows[window].ranked)
      text += (text.empty() ? "" : " ") + one.id.first.key + ":" + std::to_string(one.lost.losses);
    return text;
  }

  LostKeys keys_;
};

TEST_F(LostKeysTest, TheMostLossesComeFirst) {
  keys_.OnLost(Of("a"), 0);
  for (int i = 0; i < 3; ++i) keys_.OnLost(Of("b"), i * kSecond);
  EXPECT_EQ(Ranking(0, 3 * kSecond), "b:3 a:1");
  EXPECT_EQ(Ranking(0, 3 * kSecond, 1), "b:3");
  EXPECT_EQ(keys_.Rank(1, 3 * kSecond)[0].losses, 4U);
}

TEST_F(LostKeysTest, EachWindowForgetsInItsTime) {
  keys_.OnLost(Of("old"), 0);
  keys_.OnLost(Of("new"), 50 * kSecond);
  EXPECT_EQ(Ranking(0, 59 * kSecond), "new:1 old:1");
  EXPECT_EQ(Ranking(0, 70 * kSecond), "new:1");
  EXPECT_EQ(Ranking(1, 70 * kSecond), "new:1 old:1");
  EXPECT_EQ(Ranking(1, 2 * kHour), "");
  EXPECT_EQ(Ranking(2, 2 * kHour), "new:1 old:1");
  EXPECT_EQ(Ranking(2, 27 * kHour), "");
}

TEST_F(LostKeysTest, ASliceOfTimeIsUsedAgain) {
  keys_.OnLost(Of("a"), 0);
  keys_.OnLost(Of("b"), 65 * kSecond);  // the 13 slices of 5 s come round
  EXPECT_EQ(Ranking(0, 65 * kSecond), "b:1");
}

// A key with more than its share is listed, and its count is wrong by at most that share, in the worst order too.
TEST_F(LostKeysTest, AKeyThatLosesOftenIsNeverMissed) {
  constexpr std::uint64_t kHot = 300;
  std::uint64_t all = 0;
  for (std::uint64_t i = 0; i < kHot; ++i) {
    keys_.OnLost(Of("hot"), 0);
    for (int other = 0; other < 30; ++other)
      keys_.OnLost(Of("cold " + std::to_string(i) + " " + std::to_string(other)), 0);
    all += 31;
  }
  const auto window = keys_.Rank(1, 0)[0];
  EXPECT_EQ(window.losses, all);
  ASSERT_EQ(window.ranked.size(), 1U);
  EXPECT_EQ(window.ranked[0].id.first.key, "hot");
  EXPECT_GE(window.ranked[0].lost.losses, kHot);
  EXPECT_LE(window.ranked[0].lost.losses, kHot + all / LostKeys::kKeysMax);
}

// Each slice's error is the largest count that a new key has taken over there; the slices' errors add up.
TEST_F(LostKeysTest, CountsAreExactUntilAKeyTakesThePlaceOfAnother) {
  for (int round = 0; round < 3; ++round) {
    for (std::size_t key = 0; key < LostKeys::kKeysMax; ++key)
      keys_.OnLost(Of("key " + std::to_string(key)), 0);
  }
  EXPECT_EQ(keys_.Rank(1, 0)[0].losses_error, 0U);
  keys_.OnLost(Of("one more"), 0);
  EXPECT_EQ(keys_.Rank(1, 0)[0].losses_error, 3U);
  EXPECT_EQ(keys_.Rank(1, 0)[0].ranked[0].lost.losses, 4U);  // of which it has lost one
  for (std::size_t key = 0; key <= LostKeys::kKeysMax; ++key)
    keys_.OnLost(Of("key " + std::to_string(key)), 30 * kSecond);
  EXPECT_EQ(keys_.Rank(1, 30 * kSecond)[0].losses_error, 4U);
  EXPECT_EQ(keys_.Rank(1, 70 * kSecond)[0].losses_error, 1U);  // the first slice has left the minute
  EXPECT_EQ(keys_.Rank(1, 70 * kSecond)[1].losses_error, 4U);  // both in one slice of the hour
  EXPECT_EQ(keys_.Rank(1, 2 * kHour)[0].losses_error, 0U);
}

TEST_F(LostKeysTest, TheErrorIsNeverMoreThanOneCountersShare) {
  std::uint64_t losses = 0;
  for (int i = 0; i < 20'000; ++i, ++losses) keys_.OnLost(Of(std::to_string((i * i) % 977)), i * 1000);
  for (const LostKeys::Window& window : keys_.Rank(1, 20 * kSecond)) {
    EXPECT_EQ(window.losses, losses);
    EXPECT_GT(window.losses_error, 0U);
    EXPECT_LE(window.losses_error, losses / LostKeys::kKeysMax);
  }
}

TEST_F(LostKeysTest, TellsWinnersAndTheTimeSpent) {
  keys_.OnLost(Of("a", 2, 100), 0);
  keys_.OnLost(Of("a", 3, 50), 10 * kSecond);
  keys_.OnLost(Of("a", 3, 7), 20 * kSecond);
  const LostKey lost = keys_.Rank(1, 20 * kSecond)[0].ranked[0].lost;
  EXPECT_EQ(lost.spent_us, 157);
  EXPECT_EQ(lost.winners, (std::map<SpId, std::uint64_t>{{2, 1}, {3, 2}}));
}

TEST_F(LostKeysTest, TellsTheColumnsThatDifferFromLoserToLoser) {
  keys_.OnLost(Of("a", 2, 0, Image("1", "10", "x")), 0);
  EXPECT_TRUE(keys_.Rank(1, 0)[0].ranked[0].lost.changed.empty());
  keys_.OnLost(Of("a", 2, 0, Image("1", "12", "x")), 0);
  EXPECT_EQ(keys_.Rank(1, 0)[0].ranked[0].lost.changed, std::set<std::size_t>{1});
  keys_.OnLost(Of("a", 2, 0, Image("1", "12", "y")), 0);
  EXPECT_EQ(keys_.Rank(1, 0)[0].ranked[0].lost.changed, (std::set<std::size_t>{1, 2}));
}

TEST_F(LostKeysTest, ImagesThatCannotBeComparedSayNothing) {
  keys_.OnLost(Of("a", 2, 0, "nonsense"), 0);
  keys_.OnLost(Of("a", 2, 0, Image("1", "12", "x")), 0);
  keys_.OnLost(Of("a", 2, 0, Image("1", std::string(LostKeys::kImageBytesMax, '9'), "x")), 0);
  keys_.OnLost(Of("a"), 0);
  EXPECT_TRUE(keys_.Rank(1, 0)[0].ranked[0].lost.changed.empty());
}

TEST_F(LostKeysTest, LongKeysCountForTheirTable) {
  keys_.OnLost(Of(std::string(LostKeys::kKeyBytesMax + 1, 'x')), 0);
  keys_.OnLost(Of(std::string(LostKeys::kKeyBytesMax + 1, 'y')), 0);
  EXPECT_EQ(Ranking(0, 0), ":2");
}

TEST_F(LostKeysTest, NewsComeEveryFiveSecondsWhileThereAreLosses) {
  EXPECT_FALSE(keys_.TakeNews(kHour));
  keys_.OnLost(Of("a"), kHour);
  EXPECT_TRUE(keys_.TakeNews(kHour));
  keys_.OnLost(Of("a"), kHour);
  EXPECT_FALSE(keys_.TakeNews(kHour + 4 * kSecond));
  EXPECT_TRUE(keys_.TakeNews(kHour + 5 * kSecond));
  EXPECT_FALSE(keys_.TakeNews(kHour + 20 * kSecond));
  EXPECT_TRUE(keys_.TakeNews(kHour + 65 * kSecond));  // the windows have moved
}

TxId Loser(char number) { return *TxId::FromBytes(std::string(15, 'x') + number); }

Loss LossOfLoser(char number) {
  Loss loss = Of("a");
  loss.tx_id = Loser(number);
  return loss;
}

TEST_F(LostKeysTest, TheStatementThatWroteTheKeysTableLast) {
  const auto query_id = [&] { return keys_.Rank(1, kSecond).front().ranked.front().lost.query_id; };
  keys_.OnLost(LossOfLoser(1), 0);
  EXPECT_TRUE(keys_.TakeNews(10 * kSecond));
  EXPECT_EQ(query_id(), 0);
  keys_.OnStatements({Loser(2), {{1, 70}}});  // of nobody that has lost
  EXPECT_EQ(query_id(), 0);
  keys_.OnStatements({Loser(1), {{2, 80}, {1, 90}}});
  EXPECT_EQ(query_id(), 90);
  EXPECT_TRUE(keys_.TakeNews(20 * kSecond));   // that is news, too
  keys_.OnStatements({Loser(1), {{1, 100}}});  // once only
  EXPECT_EQ(query_id(), 90);
  keys_.OnLost(LossOfLoser(3), 0);
  keys_.OnStatements({Loser(3), {{2, 80}}});  // not of this table
  for (const LostKeys::Window& window : keys_.Rank(1, kSecond)) {
    EXPECT_EQ(window.ranked.front().lost.query_id, 90);
  }
}

TEST_F(LostKeysTest, OldLosersTellNoStatement) {
  keys_.OnLost(LossOfLoser(1), 0);
  for (std::size_t i = 0; i < LostKeys::kUntoldMax; ++i) keys_.OnLost(LossOfLoser(2), 0);
  keys_.OnStatements({Loser(1), {{1, 90}}});
  EXPECT_EQ(keys_.Rank(1, 0).front().ranked.front().lost.query_id, 0);
}

TEST(LossOfTest, TellsTheKindAndTheLosersRow) {
  proto::WriteSet write_set;
  write_set.add_rows()->set_table_id(1);
  proto::Row* row = write_set.add_rows();
  row->set_table_id(1);
  row->set_key("k");
  row->set_image("new");
  const Conflict on_row{{1, "k"}, 9, 3, std::nullopt};
  EXPECT_EQ(LossOf(write_set, &on_row, false, 5).image, "new");
  EXPECT_EQ(LossOf(write_set, &on_row, false, 5).spent_us, 5);
  EXPECT_EQ(LossOf(write_set, &on_row, false, 5).winner, 3U);
  EXPECT_EQ(LossOf(write_set, &on_row, false, 5).kind, proto::LOSS_ROW);
  EXPECT_EQ(LossOf(write_set, &on_row, true, 5).kind, proto::LOSS_UNIQUE_VALUE);
  const Conflict lock{{kAdvisoryLocksId, "k"}, 9, 3, std::nullopt};
  EXPECT_EQ(LossOf(write_set, &lock, false, 5).kind, proto::LOSS_ADVISORY_LOCK);
  for (const auto& [use, kind] : {std::pair{proto::USE_SHARED, proto::LOSS_FOREIGN_KEY},
                                  {proto::USE_ENDED, proto::LOSS_FOREIGN_KEY},
                                  {proto::USE_READ, proto::LOSS_READ},
                                  {proto::USE_REFERRERS_READ, proto::LOSS_READ},
                                  {proto::USE_TABLE_READ, proto::LOSS_READ}}) {
    const Conflict conflict{{1, "other"}, 9, 3, use};
    EXPECT_EQ(LossOf(write_set, &conflict, false, 5).kind, kind);
  }
  EXPECT_EQ(LossOf(write_set, nullptr, false, 5).kind, proto::LOSS_SCHEMA_CHANGE);
  EXPECT_EQ(LossOf(write_set, nullptr, false, 5).key.table_id, 1U);
  EXPECT_EQ(LossOf({}, nullptr, false, 5).key, RowKey{});
}

}  // namespace
}  // namespace psp::sp
