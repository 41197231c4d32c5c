#include "mrv/outcomes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace psp::mrv {
namespace {

const ValueId kOne{.column_id = 1, .key = "{1}"};
const ValueId kTwo{.column_id = 1, .key = "{2}"};

TEST(Outcomes, ReportsOfAValueAddUp) {
  Outcomes outcomes(100);
  outcomes.Add({.value = kOne, .commits = 3, .aborts = 1});
  outcomes.Add({.value = kOne, .commits = 2, .aborts = 0, .measured = 2, .response_ms = 10});
  outcomes.Add({.value = kTwo, .commits = 7});
  const std::vector<Outcome> closed = outcomes.Close();
  ASSERT_EQ(closed.size(), 2U);
  EXPECT_EQ(closed[0].value, kOne);
  EXPECT_EQ(closed[0].commits, 5);
  EXPECT_EQ(closed[0].aborts, 1);
  EXPECT_EQ(closed[0].response_ms, 5.0) << "of the two that were measured";
  EXPECT_EQ(closed[1].commits, 7);
  EXPECT_EQ(closed[1].response_ms, std::nullopt);
}

TEST(Outcomes, WaitersAreTheMeanOfAllSamples) {
  Outcomes outcomes(100);
  outcomes.AddSample({{.value = kOne, .waiters = 6}});
  outcomes.AddSample({{.value = kOne, .waiters = 2}, {.value = kTwo, .waiters = 1}});
  outcomes.AddSample({});
  outcomes.AddSample({});
  const std::vector<Outcome> closed = outcomes.Close();
  ASSERT_EQ(closed.size(), 2U);
  EXPECT_EQ(closed[0].lock_waiters, 2.0);
  EXPECT_EQ(closed[1].lock_waiters, 0.25);
}

TEST(Outcomes, TwoRowsOfAValueThatAreWaitedForAddUp) {
  Outcomes outcomes(100);
  outcomes.AddSample({{.value = kOne, .waiters = 6}, {.value = kOne, .waiters = 2}});
  EXPECT_EQ(outcomes.Close()[0].lock_waiters, 8.0);
}

TEST(Outcomes, AValueThatBecomesQuietIsToldOnce) {
  Outcomes outcomes(100);
  outcomes.Add({.value = kOne, .commits = 3});
  outcomes.Close();
  const std::vector<Outcome> quiet = outcomes.Close();
  ASSERT_EQ(quiet.size(), 1U);
  EXPECT_EQ(quiet[0].commits, 0);
  EXPECT_TRUE(outcomes.Close().empty());
}

TEST(Outcomes, MoreValuesThanTheLimitAreCountedAndDropped) {
  Outcomes outcomes(1);
  outcomes.Add({.value = kOne, .commits = 1});
  outcomes.Add({.value = kTwo, .commits = 1});
  outcomes.Add({.value = kOne, .commits = 1});
  EXPECT_EQ(outcomes.dropped(), 1U);
  const std::vector<Outcome> closed = outcomes.Close();
  ASSERT_EQ(closed.size(), 1U);
  EXPECT_EQ(closed[0].commits, 2);
}

TEST(Outcomes, NonsenseFromOutsideDoesNoHarm) {
  Outcomes outcomes(100);
  outcomes.Add({.value = kOne, .commits = -5, .aborts = -1, .measured = 3, .response_ms = -9});
  const std::vector<Outcome> closed = outcomes.Close();
  EXPECT_EQ(closed[0].commits, 0);
  EXPECT_EQ(closed[0].aborts, 0);
  EXPECT_EQ(closed[0].response_ms, std::nullopt);
}

}  // namespace
}  // namespace psp::mrv
