#include "writeset/key_text.h"

#include <gtest/gtest.h>

#include "common/pg_binary.h"

namespace psp {
namespace {

// Values of PostgreSQL itself are in vectors_test.cc.
std::string TextOf(std::uint32_t type_oid, std::string_view bytes) {
  std::string key;
  AppendRecord(&key, {{type_oid, bytes}});
  const auto texts = KeyTexts(key);
  return texts.size() == 1 ? texts[0].value_or("unknown") : "malformed";
}

std::string Int4(std::int32_t value) {
  std::string bytes;
  AppendInt32(&bytes, value);
  return bytes;
}

std::string Int8(std::int64_t value) {
  std::string bytes;
  AppendInt64(&bytes, value);
  return bytes;
}

TEST(KeyTextsTest, Integers) {
  EXPECT_EQ(TextOf(kOidInt4, Int4(-5)), "-5");
  EXPECT_EQ(TextOf(kOidInt8, Int8(INT64_MIN)), "-9223372036854775808");
  EXPECT_EQ(TextOf(kOidOid, Int4(-1)), "4294967295");
  EXPECT_EQ(TextOf(kOidInt4, "123"), "unknown");
}

TEST(KeyTextsTest, DatesAreJulianDays) {
  EXPECT_EQ(TextOf(kOidDate, Int4(0)), "J2451545");
  EXPECT_EQ(TextOf(kOidDate, Int4(-2451545)), "J0");
  EXPECT_EQ(TextOf(kOidDate, Int4(INT32_MAX)), "infinity");
  EXPECT_EQ(TextOf(kOidTimestamp, Int8(-1)), "J2451544 23:59:59.999999");
  EXPECT_EQ(TextOf(kOidTimestamptz, Int8(86'400'000'000)), "J2451546 00:00:00.000000+00");
  EXPECT_EQ(TextOf(kOidTimestamptz, Int8(INT64_MIN)), "-infinity");
}

TEST(KeyTextsTest, Numerics) {
  EXPECT_EQ(TextOf(kOidNumeric, std::string("\0\2\0\0\0\0\0\1\0\1\x13\x88", 12)), "000015000e-4");  // 1.5
  EXPECT_EQ(TextOf(kOidNumeric, std::string("\0\1\0\1\x40\0\0\0\0\3", 10)), "-00003e4");            // -30000
  EXPECT_EQ(TextOf(kOidNumeric, std::string("\0\0\0\0\0\0\0\0", 8)), "0e4");
  EXPECT_EQ(TextOf(kOidNumeric, std::string("\0\0\0\0\xC0\0\0\0", 8)), "NaN");
  EXPECT_EQ(TextOf(kOidNumeric, "short"), "unknown");
}

TEST(KeyTextsTest, TextsAndBytes) {
  EXPECT_EQ(TextOf(kOidText,
                   "gr\xC3\xB6\xC3\x9F"
                   "e '\\"),
            "gr\xC3\xB6\xC3\x9F"
            "e '\\");
  EXPECT_EQ(TextOf(kOidBytea, std::string("\0x", 2)), "\\x0078");
  EXPECT_EQ(TextOf(kOidBool, std::string("\0", 1)), "f");
}

TEST(KeyTextsTest, OtherTypesAndNonsense) {
  EXPECT_EQ(TextOf(600, "point"), "unknown");
  EXPECT_TRUE(KeyTexts("nonsense").empty());
}

}  // namespace
}  // namespace psp
