#include "semi_primary/apply/reaction.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace psp::sp {
namespace {

ApplyReaction To(PgReaction reaction, const char* sqlstate) { return ReactionTo({reaction, sqlstate, ""}); }

TEST(ApplyReaction, WhatMayPassIsTriedAgainWithoutLimit) {
  for (const char* sqlstate : {"57014", "53100", "53200", "53300", "55P03", "25006", "58030"}) {
    EXPECT_EQ(To(PgReaction::kAbort, sqlstate), ApplyReaction::kWait) << sqlstate;
  }
}

TEST(ApplyReaction, AnythingElseStopsTheStream) {
  for (const char* sqlstate : {"22P03", "23505", "42501", "42883", "P0001", "XX000", ""}) {
    EXPECT_EQ(To(PgReaction::kAbort, sqlstate), ApplyReaction::kStop) << sqlstate;
  }
}

TEST(ApplyReaction, ALostConnectionBeginsAgainAndALostRaceIsTriedAgain) {
  EXPECT_EQ(To(PgReaction::kReconnect, "57P01"), ApplyReaction::kBegin);
  EXPECT_EQ(To(PgReaction::kInDoubt, ""), ApplyReaction::kBegin);
  EXPECT_EQ(To(PgReaction::kRetry, "40P01"), ApplyReaction::kAgain);
}

TEST(ApplyReaction, LossesInARowAreFollowedByLongerAndLongerPauses) {
  for (int losses = 1; losses <= 3; ++losses) EXPECT_EQ(PauseAfterLosses(losses), 0) << losses;
  std::int64_t pause_ms = 1;
  for (int losses = 4; losses <= 100; ++losses, pause_ms = std::min<std::int64_t>(pause_ms * 2, 5'000)) {
    EXPECT_EQ(PauseAfterLosses(losses), pause_ms) << losses;
  }
}

}  // namespace
}  // namespace psp::sp
