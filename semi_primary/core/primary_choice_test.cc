#include "semi_primary/core/primary_choice.h"

#include <gtest/gtest.h>

namespace psp::sp {
namespace {

constexpr std::int64_t kPatienceUs = 3'000'000;

const EpochStarts kFollowed = {{"one", 1}};
const EpochStarts kNewer = {{"one", 1}, {"two", 10}};
const EpochStarts kNewest = {{"one", 1}, {"two", 10}, {"three", 10}};

TEST(PrimaryChoiceTest, OneAddressIsChosenAndNobodyIsAsked) {
  PrimaryChoice choice(1, kPatienceUs);
  EXPECT_TRUE(choice.has_choice(0));
  choice.OnLost();
  EXPECT_TRUE(choice.has_choice(1));
  EXPECT_FALSE(choice.LookIsDue(false, 1'000'000'000));
}

TEST(PrimaryChoiceTest, AllAreAskedAtOnceAndThenTwiceASecondOrOnce) {
  PrimaryChoice choice(3, kPatienceUs);
  EXPECT_TRUE(choice.LookIsDue(false, 1'000'000));
  choice.OnLooked(1'000'000);
  EXPECT_FALSE(choice.LookIsDue(false, 1'499'999));
  EXPECT_TRUE(choice.LookIsDue(false, 1'500'000));
  EXPECT_FALSE(choice.LookIsDue(true, 1'999'999));
  EXPECT_TRUE(choice.LookIsDue(true, 2'000'000));
  choice.OnLost();
  EXPECT_TRUE(choice.LookIsDue(false, 1'000'001));
}

TEST(PrimaryChoiceTest, TheFirstThatAnswersIsTakenUnlessANewerOneAnswersToo) {
  PrimaryChoice choice(3, kPatienceUs);
  EXPECT_FALSE(choice.has_choice(1'000));
  EXPECT_FALSE(choice.Prefers(2, {}, "one", false, 1'000)) << "no primary has no epoch";
  ASSERT_TRUE(choice.Prefers(2, kNewer, "one", false, 1'000));
  choice.GoTo(2, kNewer, 1'000);
  EXPECT_EQ(choice.current(), 2U);
  EXPECT_TRUE(choice.has_choice(2'000));
  EXPECT_FALSE(choice.Prefers(1, kFollowed, "one", false, 2'000)) << "the chosen one is newer";
  EXPECT_FALSE(choice.Prefers(1, kNewer, "one", false, 2'000)) << "the same one at another address";
  EXPECT_TRUE(choice.Prefers(1, kNewest, "one", false, 2'000));
}

TEST(PrimaryChoiceTest, AnAddressWithoutWelcomeIsGivenUp) {
  PrimaryChoice choice(2, kPatienceUs);
  choice.GoTo(0, kNewer, 1'000);
  EXPECT_FALSE(choice.Prefers(1, kFollowed, "one", false, 1'000 + kPatienceUs - 1));
  EXPECT_FALSE(choice.has_choice(1'000 + kPatienceUs));
  EXPECT_TRUE(choice.Prefers(1, kFollowed, "one", false, 1'000 + kPatienceUs));
}

TEST(PrimaryChoiceTest, WhoIsConnectedGoesOnlyToANewerOne) {
  PrimaryChoice choice(2, kPatienceUs);
  choice.GoTo(0, kFollowed, 1'000);
  EXPECT_FALSE(choice.Prefers(1, kFollowed, "one", true, 10'000'000)) << "the same one at another address";
  EXPECT_FALSE(choice.Prefers(1, {{"fork", 1}}, "one", true, 10'000'000));
  EXPECT_FALSE(choice.Prefers(0, kNewer, "one", true, 10'000'000)) << "an answer of the one that is used";
  EXPECT_TRUE(choice.Prefers(1, kNewer, "one", true, 10'000'000));
}

TEST(PrimaryChoiceTest, ALossChoosesAnew) {
  PrimaryChoice choice(2, kPatienceUs);
  choice.GoTo(1, kNewer, 1'000);
  choice.OnLost();
  EXPECT_FALSE(choice.has_choice(1'001));
  EXPECT_TRUE(choice.Prefers(0, kFollowed, "one", false, 1'001));
}

}  // namespace
}  // namespace psp::sp
