#include "common/commit_choice.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <random>
#include <string>

namespace psp {
namespace {

TxId AnId(std::mt19937_64* random) {
  std::string bytes;
  while (bytes.size() < TxId::kSize) bytes.push_back(static_cast<char>((*random)() & 0xFFU));
  return *TxId::FromBytes(bytes);
}

TEST(CommitChoice, IsOffAtFirst) {
  const CommitChoice choice;
  EXPECT_TRUE(choice.is_off());
  EXPECT_FALSE(choice.Follows(TxId()));
  EXPECT_FALSE(choice.TellsEnd(TxId(), 1'000'000'000));
}

TEST(CommitChoice, TellsTheEndOfSlowOnes) {
  const CommitChoice choice{.over_ms = 20};
  EXPECT_FALSE(choice.TellsEnd(TxId(), 19'999));
  EXPECT_TRUE(choice.TellsEnd(TxId(), 20'000));
  EXPECT_FALSE(choice.Follows(TxId()));
  EXPECT_TRUE(CommitChoice{.over_ms = 0}.TellsEnd(TxId(), 0));
}

TEST(CommitChoice, FollowsOneInSoMany) {
  std::mt19937_64 random(1);
  int followed = 0;
  for (int i = 0; i < 10'000; ++i) {
    const TxId id = AnId(&random);
    followed += CommitChoice{.one_in = 100}.Follows(id) ? 1 : 0;
    EXPECT_TRUE(CommitChoice{.one_in = 1}.Follows(id));
    // Who is followed where one in 1,000 is, is followed where one in 100 is.
    EXPECT_GE(CommitChoice{.one_in = 100}.Follows(id), CommitChoice{.one_in = 1000}.Follows(id));
  }
  EXPECT_GT(followed, 50);
  EXPECT_LT(followed, 200);
}

// As psp gives them: a counter at the end, and much that is the same.
TEST(CommitChoice, ACounterInTheIdIsNoPattern) {
  int followed = 0;
  for (int i = 1; i <= 20'000; ++i) {
    char text[40];
    std::snprintf(text, sizeof text, "00000000-02ee-82c0-a9aa-%08x%04x", i / 100, i % 100);
    followed += CommitChoice{.one_in = 100}.Follows(*TxId::FromText(text)) ? 1 : 0;
  }
  EXPECT_GT(followed, 120);
  EXPECT_LT(followed, 280);
}

}  // namespace
}  // namespace psp
