#include "common/epochs.h"

#include <gtest/gtest.h>

namespace psp {
namespace {

// An epoch that decided 1 to 100, one that decided 101 to 150, and the one that is now.
const EpochStarts kEpochs = {{"first", 1}, {"second", 101}, {"third", 151}};

TEST(EpochsTest, ANumberBelongsToTheLastEpochThatBeganBeforeIt) {
  EXPECT_EQ(HistoryOf(kEpochs, 1), "first");
  EXPECT_EQ(HistoryOf(kEpochs, 100), "first");
  EXPECT_EQ(HistoryOf(kEpochs, 101), "second");
  EXPECT_EQ(HistoryOf(kEpochs, 1000), "third");
  EXPECT_EQ(HistoryOf(kEpochs, 0), "");
  EXPECT_EQ(HistoryOf({}, 7), "");
}

TEST(EpochsTest, WhoStandsInAnEpochsRangeBelongsHereUpToItsLastNumber) {
  EXPECT_EQ(HistoryObjection(kEpochs, 1, "first"), "");
  EXPECT_EQ(HistoryObjection(kEpochs, 100, "first"), "");
  EXPECT_EQ(HistoryObjection(kEpochs, 101, "second"), "");
  EXPECT_EQ(HistoryObjection(kEpochs, 150, "second"), "");
  EXPECT_EQ(HistoryObjection(kEpochs, 151, "third"), "");
}

TEST(EpochsTest, WhoHasALostNumberDoesNot) {
  EXPECT_NE(HistoryObjection(kEpochs, 151, "second"), "") << "the second epoch ended at 150 here";
  EXPECT_NE(HistoryObjection(kEpochs, 1000, "second"), "") << "however many have filled the gap";
  EXPECT_NE(HistoryObjection(kEpochs, 150, "other"), "") << "an epoch that this database never had";
  EXPECT_NE(HistoryObjection(kEpochs, 160, "other"), "") << "the same backup, restored another time";
  EXPECT_NE(HistoryObjection(kEpochs, 7, ""), "");
  EXPECT_NE(HistoryObjection({}, 7, ""), "");
}

TEST(EpochsTest, NumbersAreUnbrokenUpToTheFirstThatNoBatchHas) {
  EXPECT_EQ(UnbrokenUpTo(0, {}), 0);
  EXPECT_EQ(UnbrokenUpTo(48, {}), 48);
  EXPECT_EQ(UnbrokenUpTo(48, {{51, 53}, {49, 50}}), 53) << "in any order of the decisions";
  EXPECT_EQ(UnbrokenUpTo(48, {{51, 53}, {54, 60}}), 48);
  EXPECT_EQ(UnbrokenUpTo(48, {{49, 49}, {51, 53}}), 49);
  EXPECT_EQ(UnbrokenUpTo(52, {{49, 50}, {51, 53}, {51, 53}, {55, 55}}), 53) << "some were settled since";
  EXPECT_EQ(UnbrokenUpTo(48, {{49, 60}, {50, 50}, {61, 61}}), 61) << "one that was decided again, alone";
}

// 49 and 50 were missing when the second epoch began, and 53 was the newest number.
TEST(EpochsTest, OwnCommitsAboveAGapAreKnownByTheirTransactions) {
  const EpochStarts epochs = {{"first", 1}, {"second", 49}};
  const TxId kept = *TxId::FromBytes("kept, 16 bytes!!");
  const TxId other = *TxId::FromBytes("other, 16 bytes!");
  const Commits commits = {{51, kept}, {53, kept}};
  EXPECT_EQ(OwnCommitObjection(epochs, commits, 48, other, "first"), "");
  EXPECT_NE(OwnCommitObjection(epochs, commits, 49, other, "first"), "") << "it is lost";
  EXPECT_EQ(OwnCommitObjection(epochs, commits, 53, kept, "first"), "");
  EXPECT_NE(OwnCommitObjection(epochs, commits, 53, other, "first"), "") << "another history's 53";
  EXPECT_NE(OwnCommitObjection(epochs, commits, 54, kept, "first"), "");
  EXPECT_EQ(OwnCommitObjection(epochs, commits, 54, other, "second"), "");
}

// `blocked` began over a gap, below the newest number, and decided nothing.
TEST(EpochsTest, ALossIsGivenUpWhenMoreWasCommittedSince) {
  const EpochStarts epochs = {{"first", 1}, {"blocked", 98}, {"second", 100}, {"now", 104}};
  const std::vector<GlobalT> newest_ts = {0, 99, 99, 103};
  EXPECT_TRUE(IsGivenUp(epochs, newest_ts, {"first", "fork", "newer"}));
  EXPECT_TRUE(IsGivenUp(epochs, newest_ts, {"first", "blocked"})) << "103 is of the epoch after it";
  EXPECT_FALSE(IsGivenUp(epochs, newest_ts, {"first", "second"})) << "nothing since";
  EXPECT_FALSE(IsGivenUp({epochs.begin(), epochs.end() - 1}, {0, 99, 99}, {"first", "fork"}));
  EXPECT_FALSE(IsGivenUp(epochs, newest_ts, {"unknown"}));
  EXPECT_FALSE(IsGivenUp(epochs, newest_ts, {}));
}

TEST(EpochsTest, WhoHasNothingBelongsAnywhere) {
  EXPECT_EQ(HistoryObjection(kEpochs, 0, ""), "");
  EXPECT_EQ(HistoryObjection(kEpochs, -1, "other"), "");
  EXPECT_EQ(HistoryObjection({}, 0, ""), "");
}

}  // namespace
}  // namespace psp
