#include "primary/certify/key_locks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace psp::primary {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const RowKey kKey{1, "k"};

class KeyLocksTest : public testing::Test {
 protected:
  struct Owner {
    int number = 0;
  };

  bool Take(int owner, Access access) { return locks_.Take(kKey, access, &owners_[owner]); }
  // Who holds it now and waited before.
  std::vector<int> Leave(int owner) {
    std::vector<int> granted;
    locks_.Leave(kKey, &owners_[owner], [&](const Owner* next) { granted.push_back(next->number); });
    return granted;
  }
  std::vector<int> Waiting() {
    std::vector<int> waiting;
    locks_.ForEachWaiting(kKey, [&](const auto& claim) { waiting.push_back(claim.owner->number); });
    return waiting;
  }

  Owner owners_[5] = {{0}, {1}, {2}, {3}, {4}};
  KeyLocks<Owner> locks_;
};

TEST_F(KeyLocksTest, WritersHoldAKeyOneAfterTheOther) {
  EXPECT_TRUE(Take(0, kWrites));
  EXPECT_FALSE(Take(1, kWrites));
  EXPECT_FALSE(Take(2, kWrites));
  EXPECT_THAT(Waiting(), ElementsAre(1, 2));
  EXPECT_THAT(Leave(0), ElementsAre(1));
  EXPECT_THAT(Leave(1), ElementsAre(2));
  EXPECT_THAT(Leave(2), IsEmpty());
  EXPECT_TRUE(Take(3, kWrites));
}

TEST_F(KeyLocksTest, SharersHoldItTogetherAndSoDoReaders) {
  for (const Access access : {kShares, kReads}) {
    EXPECT_TRUE(Take(0, access));
    EXPECT_TRUE(Take(1, access));
    EXPECT_THAT(Waiting(), IsEmpty());
    EXPECT_THAT(Leave(0), IsEmpty());
    EXPECT_THAT(Leave(1), IsEmpty());
  }
}

TEST_F(KeyLocksTest, NobodyOvertakesOneThatWaits) {
  EXPECT_TRUE(Take(0, kShares));
  EXPECT_FALSE(Take(1, kEnds));
  EXPECT_FALSE(Take(2, kShares));
  EXPECT_FALSE(Take(3, kShares));
  EXPECT_THAT(Leave(0), ElementsAre(1));
  EXPECT_THAT(Leave(1), ElementsAre(2, 3));
}

TEST_F(KeyLocksTest, OneThatWaitedInBetweenGivesWayWhenItLeaves) {
  EXPECT_TRUE(Take(0, kShares));
  EXPECT_FALSE(Take(1, kEnds));
  EXPECT_FALSE(Take(2, kShares));
  EXPECT_THAT(Leave(1), ElementsAre(2));
}

TEST_F(KeyLocksTest, TheLastOfSeveralHoldersGivesItAway) {
  EXPECT_TRUE(Take(0, kReads));
  EXPECT_TRUE(Take(1, kReads));
  EXPECT_FALSE(Take(2, kWrites));
  EXPECT_THAT(Leave(0), IsEmpty());
  EXPECT_THAT(Leave(1), ElementsAre(2));
}

TEST_F(KeyLocksTest, WhoSharesAndReadsReferrersHoldsItAlone) {
  EXPECT_TRUE(Take(0, kShares | kReadsReferrers));
  EXPECT_FALSE(Take(1, kShares | kReadsReferrers));
  EXPECT_FALSE(Take(2, kShares));
}

TEST(LostBy, TellsWithWhichUseOneHasLost) {
  EXPECT_EQ(LostBy(kWrites, kWrites), kWrites);
  EXPECT_EQ(LostBy(kReads, kWrites), kReads);
  EXPECT_EQ(LostBy(kWrites, kReads), 0);
  EXPECT_EQ(LostBy(kEnds, kShares), kEnds);
  EXPECT_EQ(LostBy(kShares, kEnds), kShares);
  EXPECT_EQ(LostBy(kEnds, kEnds), 0)
      << "it may be the coarse key, and the rows that they take away different ones";
  EXPECT_EQ(LostBy(kShares | kEnds, kEnds), kShares);
  EXPECT_EQ(LostBy(kReadsReferrers, kShares), kReadsReferrers);
  EXPECT_EQ(LostBy(kReadsReferrers, kEnds), 0) << "all that referred to it was in the ender's snapshot";
  EXPECT_EQ(LostBy(kShares, kShares), 0);
  EXPECT_EQ(LostBy(kShares, kReadsReferrers), 0);
  EXPECT_EQ(LostBy(kShares | kReadsReferrers, kShares | kReadsReferrers), kReadsReferrers);
}

}  // namespace
}  // namespace psp::primary
