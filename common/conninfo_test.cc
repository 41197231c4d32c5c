#include "common/conninfo.h"

#include <gtest/gtest.h>

namespace psp {
namespace {

TEST(ConninfoTest, SettingsComeAfterOptionsThatAreThere) {
  EXPECT_EQ(WithSettings("host=/tmp options='-c a=1'", {{"b", "x, y"}}),
            R"(host='/tmp' options='-c a=1 -c b=x,\\ y')");
}

TEST(ConninfoTest, UrisAndQuotesAreUnderstood) {
  EXPECT_EQ(WithSettings("postgresql://u:it%27s@h/d", {{"a", "1"}}),
            R"(user='u' password='it\'s' dbname='d' host='h' options=' -c a=1')");
}

TEST(ConninfoTest, WithoutSettingsOrSenseItStaysAsItIs) {
  EXPECT_EQ(WithSettings("host=h", {}), "host=h");
  EXPECT_EQ(WithSettings("no sense", {{"a", "1"}}), "no sense");
}

}  // namespace
}  // namespace psp
