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

TEST(EpochsTest, WhoHasNothingBelongsAnywhere) {
  EXPECT_EQ(HistoryObjection(kEpochs, 0, ""), "");
  EXPECT_EQ(HistoryObjection(kEpochs, -1, "other"), "");
  EXPECT_EQ(HistoryObjection({}, 0, ""), "");
}

}  // namespace
}  // namespace psp
