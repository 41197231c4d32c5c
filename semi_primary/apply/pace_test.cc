#include "semi_primary/apply/pace.h"

#include <gtest/gtest.h>

namespace psp::sp {
namespace {

constexpr bool kRows = true;
constexpr bool kMarkers = false;

class PaceTest : public ::testing::Test {
 protected:
  Pace pace_{{.rows_us = 20, .markers_us = 50, .hurry_us = 1000}};
};

TEST_F(PaceTest, TheFirstRowsDoNotWait) { EXPECT_LE(pace_.TakeAt(kRows, 100, 100), 100); }

TEST_F(PaceTest, RowsAfterALongPauseDoNotWait) {
  pace_.OnTaken(kRows, 100);
  EXPECT_LE(pace_.TakeAt(kRows, 130, 130), 130);
}

TEST_F(PaceTest, RowsThatFollowOthersWaitForCompany) {
  pace_.OnTaken(kRows, 100);
  EXPECT_EQ(pace_.TakeAt(kRows, 105, 105), 120);
  EXPECT_EQ(pace_.TakeAt(kRows, 105, 110), 120);
}

TEST_F(PaceTest, MarkersWaitLonger) {
  EXPECT_EQ(pace_.TakeAt(kMarkers, 100, 100), 150);
  pace_.OnTaken(kMarkers, 150);
  EXPECT_LE(pace_.TakeAt(kRows, 151, 151), 151);
}

TEST_F(PaceTest, MarkersDoNotWaitLongerBecauseOfRows) {
  Pace slow({.rows_us = 500, .markers_us = 50, .hurry_us = 1000});
  slow.OnTaken(kRows, 100);
  EXPECT_EQ(slow.TakeAt(kRows, 110, 120), 160);
}

TEST_F(PaceTest, NothingWaitsForAWhileAfterHurry) {
  pace_.OnTaken(kRows, 100);
  pace_.Hurry(101);
  EXPECT_LE(pace_.TakeAt(kRows, 102, 102), 102);
  pace_.OnTaken(kRows, 1101);
  EXPECT_EQ(pace_.TakeAt(kRows, 1102, 1102), 1121);
}

}  // namespace
}  // namespace psp::sp
