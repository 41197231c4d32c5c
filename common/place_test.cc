#include "common/place.h"

#include <gtest/gtest.h>

namespace psp {
namespace {

constexpr const char* kStart = "server.0000000A.folder";

TEST(Place, APromotedStandbyIsToldFromTheServerBeforeIt) {
  EXPECT_EQ(PlaceOf(kStart, kStart), Place::kSame);
  EXPECT_EQ(PlaceOf(kStart, "server..folder"), Place::kStandby);
  EXPECT_EQ(PlaceOf(kStart, "server.0000000B.folder"), Place::kPromoted);
  EXPECT_EQ(PlaceOf(kStart, "server.00000010.elsewhere"), Place::kPromoted);
  EXPECT_EQ(PlaceOf(kStart, "server.00000009.folder"), Place::kOther) << "it was promoted away from";
}

TEST(Place, ACopyElsewhereAndAnotherServerAreOthers) {
  EXPECT_EQ(PlaceOf(kStart, "server.0000000A.elsewhere"), Place::kOther);
  EXPECT_EQ(PlaceOf(kStart, "another.0000000B.folder"), Place::kOther);
  EXPECT_EQ(PlaceOf(kStart, "another..folder"), Place::kOther);
}

TEST(Place, OfAnOlderPspNothingElseIsKnown) {
  EXPECT_EQ(PlaceOf("before", "before"), Place::kSame);
  EXPECT_EQ(PlaceOf("before", "after"), Place::kOther);
  EXPECT_EQ(PlaceOf("before", "before.00000001.folder"), Place::kOther);
}

}  // namespace
}  // namespace psp
