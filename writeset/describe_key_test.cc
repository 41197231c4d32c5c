#include "writeset/describe_key.h"

#include <gtest/gtest.h>

#include "common/pg_binary.h"

namespace psp {
namespace {

std::string Int8(std::int64_t value) {
  std::string out;
  AppendInt64(&out, value);
  return out;
}

std::string Int4(std::int32_t value) {
  std::string out;
  AppendInt32(&out, value);
  return out;
}

std::string Numeric(std::int16_t weight, int sign, std::int16_t scale,
                    const std::vector<std::int16_t>& digits) {
  std::string out;
  AppendInt16(&out, static_cast<std::int16_t>(digits.size()));
  AppendInt16(&out, weight);
  AppendInt16(&out, static_cast<std::int16_t>(sign));
  AppendInt16(&out, scale);
  for (const std::int16_t digit : digits) AppendInt16(&out, digit);
  return out;
}

std::string Shown(std::uint32_t oid, const std::string& bytes) {
  std::string key;
  AppendRecord(&key, {{oid, bytes}});
  return DescribeKey({}, key);
}

TEST(DescribeKeyTest, UsualTypes) {
  EXPECT_EQ(Shown(kOidInt4, Int4(-5)), "(-5)");
  EXPECT_EQ(Shown(kOidInt8, Int8(1LL << 40)), "(1099511627776)");
  EXPECT_EQ(Shown(kOidText, "ann"), "(ann)");
  EXPECT_EQ(Shown(kOidBool, "\1"), "(t)");
  EXPECT_EQ(Shown(kOidUuid, std::string(16, '\x11')), "(11111111-1111-1111-1111-111111111111)");
  EXPECT_EQ(Shown(kOidDate, Int4(0)), "(2000-01-01)");
  EXPECT_EQ(Shown(kOidDate, Int4(-1)), "(1999-12-31)");
  EXPECT_EQ(Shown(kOidTimestamp, Int8(-1)), "(1999-12-31 23:59:59.999999)");
  EXPECT_EQ(Shown(kOidTimestamptz, Int8(3'600'500'000)), "(2000-01-01 01:00:00.5+00)");
  EXPECT_EQ(Shown(kOidTimestamptz, Int8(INT64_MAX)), "(infinity)");
  EXPECT_EQ(Shown(kOidBytea, std::string("\x00\xff", 2)), "(\\x00ff)");
  EXPECT_EQ(Shown(20001, "happy"), "(happy)");
  EXPECT_EQ(Shown(20001, "\x01"), "(\\x01)");
}

TEST(DescribeKeyTest, Numeric) {
  EXPECT_EQ(Shown(kOidNumeric, Numeric(0, 0, 0, {})), "(0)");
  EXPECT_EQ(Shown(kOidNumeric, Numeric(1, 0x4000, 2, {12, 3456, 7800})), "(-123456.78)");
  EXPECT_EQ(Shown(kOidNumeric, Numeric(-1, 0, 4, {5})), "(0.0005)");
  EXPECT_EQ(Shown(kOidNumeric, Numeric(1, 0, 0, {1})), "(10000)");
  EXPECT_EQ(Shown(kOidNumeric, Numeric(0, 0xC000, 0, {})), "(NaN)");
}

TEST(DescribeKeyTest, MalformedValuesAreShownAsHex) {
  EXPECT_EQ(Shown(kOidInt4, "abc"), "(\\x616263)");
  EXPECT_EQ(Shown(kOidNumeric, "abc"), "(\\x616263)");
  EXPECT_EQ(DescribeKey({}, "abc"), "(\\x616263)");
}

}  // namespace
}  // namespace psp
