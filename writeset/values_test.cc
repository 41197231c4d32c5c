#include "writeset/values.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "common/pg_binary.h"

namespace psp {
namespace {

using namespace std::string_view_literals;

std::string Int32(std::int32_t value) {
  std::string bytes;
  AppendInt32(&bytes, value);
  return bytes;
}

std::string Int64(std::int64_t value) {
  std::string bytes;
  AppendInt64(&bytes, value);
  return bytes;
}

std::string Numeric(std::int16_t weight, std::uint16_t sign, std::int16_t scale,
                    const std::vector<std::int16_t>& digits) {
  std::string bytes;
  AppendInt16(&bytes, static_cast<std::int16_t>(digits.size()));
  for (const std::int16_t part : {weight, static_cast<std::int16_t>(sign), scale}) AppendInt16(&bytes, part);
  for (const std::int16_t digit : digits) AppendInt16(&bytes, digit);
  return bytes;
}

bool Is(std::uint32_t type, std::string_view value, std::int32_t modifier = -1) {
  return IsValue({type, modifier, false}, value);
}

TEST(ValuesTest, TypesOfAFixedSizeHaveIt) {
  EXPECT_TRUE(Is(kOidInt4, "1234"));
  for (const auto value : {""sv, "123"sv, "12345"sv}) EXPECT_FALSE(Is(kOidInt4, value));
  EXPECT_TRUE(Is(99999, "anything")) << "of a type that is not known";
}

TEST(ValuesTest, TextIsUtf8) {
  for (const auto value : {""sv, "a\x7f"sv, "ä€𝄞"sv, "\xf4\x8f\xbf\xbf"sv})
    EXPECT_TRUE(Is(kOidText, value)) << value;
  for (const auto value : {"a\0b"sv, "\xff"sv, "\xc3"sv, "\xc0\x80"sv, "\xe0\x80\x80"sv, "\xed\xa0\x80"sv,
                           "\xf0\x80\x80\x80"sv, "\xf4\x90\x80\x80"sv, "\xe2\x82"sv, "\x80"sv})
    EXPECT_FALSE(Is(kOidText, value)) << value;
}

TEST(ValuesTest, TextHasTheColumnsLength) {
  EXPECT_TRUE(Is(kOidVarchar, "äöü", 7));
  EXPECT_FALSE(Is(kOidVarchar, "äöüx", 7));
  EXPECT_TRUE(Is(kOidVarchar, std::string(1000, 'x')));
  EXPECT_TRUE(Is(kOidBpchar, "äö ", 7));
  EXPECT_FALSE(Is(kOidBpchar, "äö x", 7));
  EXPECT_TRUE(Is(kOidName, std::string(63, 'x')));
  EXPECT_FALSE(Is(kOidName, std::string(64, 'x')));
}

TEST(ValuesTest, TimesAreInTheirRange) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  EXPECT_TRUE(Is(kOidTimestamptz, Int64(kMax)));
  EXPECT_TRUE(Is(kOidTimestamptz, Int64(0)));
  EXPECT_FALSE(Is(kOidTimestamptz, Int64(kMax - 1)));
  EXPECT_FALSE(Is(kOidTimestamp, Int64(-211'813'488'000'000'001)));
  EXPECT_TRUE(Is(kOidDate, Int32(std::numeric_limits<std::int32_t>::max())));
  EXPECT_FALSE(Is(kOidDate, Int32(std::numeric_limits<std::int32_t>::max() - 1)));
  EXPECT_TRUE(Is(1083, Int64(86'400'000'000)));
  EXPECT_FALSE(Is(1083, Int64(86'400'000'001)));
  EXPECT_FALSE(Is(1083, Int64(-1)));
  EXPECT_TRUE(Is(1266, Int64(0) + Int32(57'599)));
  EXPECT_FALSE(Is(1266, Int64(0) + Int32(57'600)));
}

TEST(ValuesTest, NumbersAreWellFormed) {
  EXPECT_TRUE(Is(kOidNumeric, Numeric(0, 0, 2, {1, 5000})));  // 1.50
  EXPECT_TRUE(Is(kOidNumeric, Numeric(0, 0, 0, {})));
  EXPECT_TRUE(Is(kOidNumeric, Numeric(0, 0xC000, 0, {})));
  EXPECT_FALSE(Is(kOidNumeric, Numeric(0, 0x1000, 0, {1})));
  EXPECT_FALSE(Is(kOidNumeric, Numeric(0, 0, 0, {10000})));
  EXPECT_FALSE(Is(kOidNumeric, Numeric(0, 0, 0, {-1})));
  EXPECT_FALSE(Is(kOidNumeric, Numeric(0, 0, 0, {1, 5000}))) << "would lose its end";
  EXPECT_FALSE(Is(kOidNumeric, Numeric(1, 0, 0, {0, 1}))) << "has another form";
  EXPECT_FALSE(Is(kOidNumeric, Numeric(0, 0, -1, {1})));
  EXPECT_FALSE(Is(kOidNumeric, Numeric(0, 0, 0, {1}) + "x"));
  EXPECT_FALSE(Is(kOidNumeric, "1234567"));
  constexpr std::int32_t kOf4And2 = (4 << 16 | 2) + 4;
  EXPECT_TRUE(Is(kOidNumeric, Numeric(0, 0, 2, {99, 9900}), kOf4And2));
  EXPECT_FALSE(Is(kOidNumeric, Numeric(0, 0, 2, {100}), kOf4And2));
  EXPECT_FALSE(Is(kOidNumeric, Numeric(0, 0, 3, {99, 9950}), kOf4And2)) << "would become 100";
  EXPECT_FALSE(Is(kOidNumeric, Numeric(0, 0xD000, 0, {}), kOf4And2));
  constexpr std::int32_t kOfHundreds = (3 << 16 | (-2 & 0x7FF)) + 4;
  EXPECT_TRUE(Is(kOidNumeric, Numeric(1, 0, 0, {9, 9900}), kOfHundreds));
  EXPECT_FALSE(Is(kOidNumeric, Numeric(1, 0, 0, {10}), kOfHundreds));
  EXPECT_FALSE(Is(kOidNumeric, Numeric(1, 0, 0, {9, 9950}), kOfHundreds)) << "would become 100000";
}

TEST(ValuesTest, JsonIsUtf8) {
  EXPECT_TRUE(Is(114, "{}"));
  EXPECT_FALSE(Is(114, "\xff"));
  EXPECT_TRUE(Is(3802, "\1{}"));
  EXPECT_FALSE(Is(3802, "\2{}")) << "another version";
  EXPECT_FALSE(Is(3802, ""));
  EXPECT_FALSE(Is(3802, "\1\xff"));
}

TEST(ValuesTest, Bits) {
  EXPECT_TRUE(Is(1560, Int32(3) + "\xA0", 3));
  EXPECT_FALSE(Is(1560, Int32(2) + "\x80", 3));
  EXPECT_TRUE(Is(1562, Int32(2) + "\x80", 3));
  EXPECT_TRUE(Is(1562, Int32(0)));
  EXPECT_FALSE(Is(1562, Int32(9) + "\x80"));
  EXPECT_FALSE(Is(1562, Int32(-1)));
}

TEST(ValuesTest, Addresses) {
  EXPECT_TRUE(Is(869, "\2\x20\0\4\x7f\0\0\1"sv));
  EXPECT_FALSE(Is(869, "\2\x21\0\4\x7f\0\0\1"sv));
  EXPECT_FALSE(Is(869, "\4\x20\0\4\x7f\0\0\1"sv));
  EXPECT_TRUE(Is(650, "\2\x08\1\4\x7f\0\0\0"sv));
  EXPECT_FALSE(Is(650, "\2\x08\1\4\x7f\0\0\1"sv)) << "bits beside the mask";
}

TEST(ValuesTest, KeysAreNormalised) {
  const KeyForm number{kOidNumeric, 0, Normalise::kNumeric};
  EXPECT_TRUE(IsNormalised(number, Numeric(0, 0, 1, {1, 5000})));
  EXPECT_FALSE(IsNormalised(number, Numeric(0, 0, 2, {1, 5000})));
  EXPECT_FALSE(IsNormalised(number, Numeric(0, 0, 1, {})));
  const KeyForm real{kOidFloat4, 0, Normalise::kFloat};
  EXPECT_TRUE(IsNormalised(real, "\0\0\0\0"sv));
  EXPECT_FALSE(IsNormalised(real, "\x80\0\0\0"sv));
}

TEST(ValuesTest, AKeyIsThatOfItsImage) {
  const KeyForm id{kOidInt4, 0, Normalise::kNone};
  EXPECT_TRUE(IsKeyOf(id, "1234", kOidInt4, "1234"));
  EXPECT_FALSE(IsKeyOf(id, "1234", kOidInt4, "1235"));
  const KeyForm number{kOidNumeric, 0, Normalise::kNumeric};
  EXPECT_TRUE(IsKeyOf(number, Numeric(0, 0, 1, {1, 5000}), kOidNumeric, Numeric(0, 0, 2, {1, 5000})));
  EXPECT_FALSE(IsKeyOf(number, Numeric(0, 0, 1, {1, 5000}), kOidNumeric, Numeric(0, 0x4000, 1, {1, 5000})));
  const KeyForm real{kOidFloat8, 0, Normalise::kFloat};
  EXPECT_TRUE(IsKeyOf(real, "\0\0\0\0\0\0\0\0"sv, kOidFloat8, "\x80\0\0\0\0\0\0\0"sv));
  EXPECT_TRUE(IsKeyOf(real, "\x7f\xf8\0\0\0\0\0\0"sv, kOidFloat8, "\xff\xf8\0\0\0\0\0\0"sv));
  EXPECT_FALSE(IsKeyOf(real, "\x7f\xf0\0\0\0\0\0\0"sv, kOidFloat8, "\xff\xf0\0\0\0\0\0\0"sv)) << "infinite";
}

TEST(ValuesTest, WhatTheBytesDoNotTellIsTrue) {
  EXPECT_TRUE(IsKeyOf({kOidInt4, 0, Normalise::kBase}, "1234", kOidText, "825373492")) << "a domain's";
  EXPECT_TRUE(IsKeyOf({kOidText, 0, Normalise::kText}, "ab", kOidText, "ab  "))
      << "a domain over char has blanks in its image";
}

TEST(ValuesTest, NoValueIsTooShortToBeCompared) {
  for (const auto value : {""sv, "1"sv, "12345"sv}) {
    EXPECT_FALSE(IsKeyOf({kOidNumeric, 0, Normalise::kNumeric}, Numeric(0, 0, 0, {1}), kOidNumeric, value));
    EXPECT_FALSE(IsKeyOf({kOidFloat8, 0, Normalise::kFloat}, "\0\0\0\0\0\0\0\0"sv, kOidFloat8, value));
    EXPECT_FALSE(IsNormalised({kOidNumeric, 0, Normalise::kNumeric}, value));
    IsNormalised({kOidFloat8, 0, Normalise::kFloat}, value);
  }
}

}  // namespace
}  // namespace psp
