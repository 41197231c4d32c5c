#include "primary/core/lost_key_reports.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace psp::primary {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

proto::LossReport Report(const std::string& table_name) {
  proto::LossReport report;
  report.add_windows()->add_keys()->set_table_name(table_name);
  return report;
}

TEST(LostKeyReportsTest, TheLastOneOfEachIsNews) {
  LostKeyReports reports;
  EXPECT_EQ(reports.Add(1, Report("old")), "");
  EXPECT_EQ(reports.Add(1, Report("new")), "");
  EXPECT_EQ(reports.Add(2, Report("other")), "");
  auto news = reports.TakeNews();
  ASSERT_EQ(news.size(), 2U);
  EXPECT_THAT(news[1], HasSubstr("new"));
  EXPECT_THAT(reports.TakeNews(), IsEmpty());
}

TEST(LostKeyReportsTest, WhatWasNotStoredIsNewsAgainUnlessThereIsNewer) {
  LostKeyReports reports;
  reports.Add(1, Report("old"));
  reports.Add(2, Report("other"));
  auto news = reports.TakeNews();
  reports.Add(1, Report("new"));
  reports.PutBack(std::move(news));
  auto again = reports.TakeNews();
  EXPECT_THAT(again[1], HasSubstr("new"));
  EXPECT_THAT(again[2], HasSubstr("other"));
}

TEST(LostKeyReportsTest, WhatThePrimaryCannotStoreIsDropped) {
  LostKeyReports reports;
  EXPECT_EQ(reports.Add(1, Report(std::string("a\0b", 3))), "a text has a zero byte");
  proto::LossReport winner = Report("t");
  winner.mutable_windows(0)->mutable_keys(0)->add_winners()->set_name(std::string(1, '\0'));
  EXPECT_EQ(reports.Add(1, winner), "a text has a zero byte");
  proto::LossReport column = Report("t");
  column.mutable_windows(0)->mutable_keys(0)->add_changed_columns(std::string(1, '\0'));
  EXPECT_EQ(reports.Add(1, column), "a text has a zero byte");
  EXPECT_EQ(reports.Add(1, Report(std::string(LostKeyReports::kBytesMax, 'x'))), "it is too long");
  proto::LossReport windows;
  for (int i = 0; i < 11; ++i) windows.add_windows();
  EXPECT_EQ(reports.Add(1, windows), "it has too many windows");
  proto::LossReport keys = Report("t");
  for (int i = 0; i < 100; ++i) keys.mutable_windows(0)->add_keys();
  EXPECT_EQ(reports.Add(1, keys), "it has too many keys");
  EXPECT_THAT(reports.TakeNews(), IsEmpty());
}

}  // namespace
}  // namespace psp::primary
