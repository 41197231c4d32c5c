#include "common/pg_binary.h"

#include <gtest/gtest.h>

#include <limits>

namespace psp {
namespace {

using namespace std::string_literals;

TEST(ArrayWriter, WritesWhatPostgresqlSends) {
  ArrayWriter writer(kOidInt4);
  writer.AddInt4(1);
  writer.AddNull();
  EXPECT_EQ(writer.size(), 2U);
  // As array_send('{1,NULL}'::int4[]) gives it.
  EXPECT_EQ(writer.Finish(), "\0\0\0\1\0\0\0\1\0\0\0\x17\0\0\0\2\0\0\0\1\0\0\0\4\0\0\0\1\xff\xff\xff\xff"s);
}

TEST(ArrayWriter, EmptyArrayHasNoDimension) {
  ArrayWriter writer(kOidBytea);
  EXPECT_EQ(writer.Finish(), "\0\0\0\0\0\0\0\0\0\0\0\x11"s);
}

TEST(ArrayWriter, IsEmptyAfterFinish) {
  ArrayWriter writer(kOidBool);
  writer.AddBool(true);
  writer.AddNull();
  writer.Finish();
  EXPECT_EQ(writer.size(), 0U);
  writer.AddBool(false);
  EXPECT_EQ(writer.Finish(), "\0\0\0\1\0\0\0\0\0\0\0\x10\0\0\0\1\0\0\0\1\0\0\0\1\0"s);
}

TEST(Integers, GoRoundTrip) {
  for (const std::int64_t value :
       {std::int64_t{0}, std::int64_t{-1}, std::numeric_limits<std::int64_t>::min(), std::int64_t{1} << 40}) {
    std::string bytes;
    AppendInt64(&bytes, value);
    EXPECT_EQ(ReadInt64(bytes), value);
    EXPECT_EQ(ReadInt32(bytes), std::nullopt);
  }
  std::string bytes;
  AppendInt16(&bytes, -2);
  EXPECT_EQ(ReadInt16(bytes), -2);
}

TEST(DecodeRecord, ReadsConcatenatedRows) {
  std::string bytes;
  const std::string one = "\0\0\0\1"s;
  const std::vector<RecordField> row = {{kOidInt4, one}, {kOidText, std::nullopt}, {kOidText, ""}};
  AppendRecord(&bytes, row);
  AppendRecord(&bytes, {});
  std::string_view input = bytes;
  std::vector<RecordField> fields;
  ASSERT_EQ(DecodeRecord(&input, &fields), "");
  EXPECT_EQ(fields, row);
  ASSERT_EQ(DecodeRecord(&input, &fields), "");
  EXPECT_TRUE(fields.empty());
  EXPECT_TRUE(input.empty());
}

TEST(DecodeRecord, EveryTruncationIsAnError) {
  std::string bytes;
  AppendRecord(&bytes, {{kOidInt4, "abcd"}, {kOidText, std::nullopt}, {kOidText, "hello"}});
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    std::string_view input = std::string_view(bytes).substr(0, size);
    const std::string_view before = input;
    std::vector<RecordField> fields;
    EXPECT_NE(DecodeRecord(&input, &fields), "") << size;
    EXPECT_EQ(input, before);
  }
}

TEST(DecodeRecord, ImpossibleNumbersAreErrors) {
  std::vector<RecordField> fields;
  for (const std::string& bytes :
       {"\xff\xff\xff\xff"s, "\x7f\xff\xff\xff"s, "\0\0\0\1\0\0\0\x17\xff\xff\xff\xfe"s,
        "\0\0\0\1\0\0\0\x17\x7f\xff\xff\xff"s + "x"}) {
    std::string_view input = bytes;
    EXPECT_NE(DecodeRecord(&input, &fields), "");
  }
}

TEST(DecodeByteaText, ReadsHexOnly) {
  EXPECT_EQ(DecodeByteaText("\\x00ffAb"), "\0\xff\xab"s);
  EXPECT_EQ(DecodeByteaText("\\x"), "");
  EXPECT_EQ(DecodeByteaText("\\x0"), std::nullopt);
  EXPECT_EQ(DecodeByteaText("\\x0g"), std::nullopt);
  EXPECT_EQ(DecodeByteaText("00"), std::nullopt);
  EXPECT_EQ(DecodeByteaText(""), std::nullopt);
}

}  // namespace
}  // namespace psp
