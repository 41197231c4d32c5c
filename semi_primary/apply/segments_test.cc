#include "semi_primary/apply/segments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "embedded/constants.h"

namespace psp::sp {
namespace {

using testing::ElementsAre;

proto::WriteSet RowsOf(const std::vector<std::uint32_t>& table_ids) {
  proto::WriteSet rows;
  for (const std::uint32_t table_id : table_ids) rows.add_rows()->set_table_id(table_id);
  return rows;
}

// Where each one ends, and "!" if the catalog must be read then.
std::vector<std::string> EndsOf(Segments segments) {
  std::vector<std::string> ends;
  while (true) {
    ends.push_back(std::to_string(segments.now().end));
    EXPECT_LT(segments.now().begin, segments.now().end);
    EXPECT_EQ(segments.is_open(), ends.size() > 1);
    if (segments.is_last()) return ends;
    const int end = segments.now().end;
    if (segments.Next()) ends.back() += "!";
    EXPECT_EQ(segments.now().begin, end);
  }
}

TEST(SegmentsTest, StatementsAndRowsAreApart) {
  constexpr std::uint32_t kStatement = kSchemaHistoryId;
  EXPECT_THAT(EndsOf(Segments(RowsOf({kStatement, kStatement}))), ElementsAre("2"));
  EXPECT_THAT(EndsOf(Segments(RowsOf({kStatement, 1, 2, 1}))), ElementsAre("1!", "4"));
  EXPECT_THAT(EndsOf(Segments(RowsOf({1, kStatement, kStatement, 2, kStatement}))),
              ElementsAre("1", "3!", "4", "5"));
}

TEST(SegmentsTest, WhatIsNoSchemaChangeIsOneSegment) {
  EXPECT_TRUE(Segments().is_last());
  EXPECT_FALSE(Segments().is_open());
  EXPECT_EQ(Segments().now().begin, 0);
  EXPECT_TRUE(Segments(RowsOf({})).is_last());
}

}  // namespace
}  // namespace psp::sp
