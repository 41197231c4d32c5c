#include "writeset/snapshot_text.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace psp {
namespace {

TEST(ParseSnapshotTest, WatermarkAndSeen) {
  const auto snapshot = ParseSnapshot("10 12,15");
  ASSERT_TRUE(snapshot);
  EXPECT_EQ(snapshot->watermark(), 10);
  EXPECT_EQ(std::vector<std::int64_t>(snapshot->seen().begin(), snapshot->seen().end()),
            (std::vector<std::int64_t>{12, 15}));
}

TEST(ParseSnapshotTest, NothingSeenAboveTheWatermark) {
  const auto snapshot = ParseSnapshot("0 -");
  ASSERT_TRUE(snapshot);
  EXPECT_EQ(snapshot->watermark(), 0);
  EXPECT_TRUE(snapshot->seen().empty());
}

TEST(ParseSnapshotTest, MalformedTextIsNothing) {
  for (const char* text : {"", "10", "10 ", " -", "x -", "-1 -", "10 x", "10 9", "10 10", "10 12,12",
                           "10 13,12", "10 12,", "10 ,12", "10 - ", "10  -", "99999999999999999999 -"}) {
    EXPECT_FALSE(ParseSnapshot(text)) << text;
  }
}

}  // namespace
}  // namespace psp
