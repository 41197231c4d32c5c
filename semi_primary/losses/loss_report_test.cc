#include "semi_primary/losses/loss_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/message_json.h"
#include "common/pg_binary.h"

namespace psp::sp {
namespace {

using ::testing::HasSubstr;

std::string Int4(std::int32_t value) {
  std::string bytes;
  AppendInt32(&bytes, value);
  return bytes;
}

std::string Record(const std::vector<std::int32_t>& values) {
  std::vector<std::string> bytes;
  for (const std::int32_t value : values) bytes.push_back(Int4(value));
  std::vector<RecordField> fields;
  for (const std::string& one : bytes) fields.push_back({kOidInt4, one});
  std::string record;
  AppendRecord(&record, fields);
  return record;
}

class LossReportTest : public ::testing::Test {
 protected:
  LossReportTest() {
    CapturedTable table;
    table.column_names = {"id", "Sold \"now\""};
    table.columns.fields = {kOidInt4, kOidInt4};
    catalog_.tables[1] = table;
  }
  proto::LossReport Report(const TableCatalog* catalog) {
    return ReportLosses(
        keys_, catalog,
        [](std::uint32_t table_id) {
          return table_id == 1 ? KeyNames{"public", "item", {"id"}, "", {}} : KeyNames{};
        },
        [](SpId sp_id) { return sp_id == 2 ? "tokyo" : "lisbon"; }, 0);
  }

  LostKeys keys_;
  TableCatalog catalog_;
};

TEST_F(LossReportTest, NamesKeysWinnersAndColumns) {
  keys_.OnLost({{1, Record({7})}, proto::LOSS_ROW, 2, 3000, Record({7, 1})}, 0);
  keys_.OnLost({{1, Record({7})}, proto::LOSS_ROW, 3, 2000, Record({7, 2})}, 0);
  keys_.OnLost({{1, Record({7})}, proto::LOSS_ROW, 2, 1000, Record({7, 3})}, 0);
  keys_.OnStatements({TxId(), {{1, -9}}});
  const proto::LossReport report = Report(&catalog_);
  ASSERT_EQ(report.windows_size(), 3);
  EXPECT_EQ(report.windows(0).seconds(), 60U);
  EXPECT_EQ(report.windows(2).seconds(), 86400U);
  EXPECT_EQ(report.windows(0).losses(), 3U);
  ASSERT_EQ(report.windows(0).keys_size(), 1);
  const proto::LossReport::Key& key = report.windows(0).keys(0);
  EXPECT_EQ(key.table_name(), "item");
  EXPECT_EQ(key.key(), "(id)=(7)");
  EXPECT_EQ(key.losses(), 3U);
  EXPECT_EQ(key.spent_ms(), 6U);
  EXPECT_EQ(key.query_id(), -9);
  ASSERT_EQ(key.winners_size(), 2);
  EXPECT_EQ(key.winners(0).name(), "tokyo");
  EXPECT_EQ(key.winners(0).losses(), 2U);
  ASSERT_EQ(key.changed_columns_size(), 1);
  EXPECT_EQ(key.changed_columns(0), "\"Sold \"\"now\"\"\"");
  EXPECT_THAT(key.remedy(), HasSubstr("psp mrv create 'public.item.\"Sold \"\"now\"\"\"' DSN"));
}

TEST_F(LossReportTest, WhatIsNotKnownIsLeftOut) {
  keys_.OnLost({{9, "?"}, proto::LOSS_ROW, 0, 0, {}}, 0);
  const proto::LossReport report = Report(nullptr);
  const proto::LossReport::Key& key = report.windows(0).keys(0);
  EXPECT_EQ(key.table_name(), "");
  EXPECT_EQ(key.winners_size(), 0);
  EXPECT_NE(key.remedy(), "");
}

TEST_F(LossReportTest, TheJsonHasTheFieldsNames) {
  keys_.OnLost({{1, Record({7})}, proto::LOSS_UNIQUE_VALUE, 2, 0, {}}, 0);
  const std::string json = ToJson(Report(&catalog_));
  EXPECT_THAT(json, HasSubstr(R"("table_name":"item")"));
  EXPECT_THAT(json, HasSubstr(R"("kind":"LOSS_UNIQUE_VALUE")"));
  EXPECT_THAT(json, HasSubstr(R"("spent_ms":"0")"));
  EXPECT_THAT(json, HasSubstr(R"("changed_columns":[])"));
}

}  // namespace
}  // namespace psp::sp
