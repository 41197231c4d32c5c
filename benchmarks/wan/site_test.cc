#include "benchmarks/wan/site.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

namespace psp::wan {
namespace {

TEST(SiteTest, HasHalfTheRoundTripInEachDirection) {
  const auto site = ParseSite("far:wan-far:10.77.0.3:190");
  ASSERT_TRUE(site);
  EXPECT_EQ(site->name, "far");
  EXPECT_EQ(site->network_namespace, "wan-far");
  EXPECT_EQ(site->address, inet_addr("10.77.0.3"));
  EXPECT_EQ(site->to_hub, std::chrono::milliseconds(95));
}

TEST(SiteTest, AnythingElseIsRefused) {
  for (const char* text : {"", "far", "far:wan-far:10.77.0.3", "far:wan-far:10.77.0.3:190:1",
                           ":wan-far:10.77.0.3:190", "far::10.77.0.3:190", "far:wan-far:10.77.0.300:190",
                           "far:wan-far:10.77.0.3:", "far:wan-far:10.77.0.3:-1", "far:wan-far:10.77.0.3:nan",
                           "far:wan-far:10.77.0.3:60001"}) {
    EXPECT_FALSE(ParseSite(text)) << text;
  }
}

}  // namespace
}  // namespace psp::wan
