#include "semi_primary/mrv_report/mrv_outcomes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/pg_binary.h"

namespace psp::sp {
namespace {

constexpr std::uint32_t kRecords = 1;
constexpr std::uint32_t kRows = 2;
constexpr std::uint32_t kOther = 3;
constexpr std::int32_t kStock = 10;
constexpr std::int32_t kReserved = 11;

std::string Record(const std::vector<std::string>& values) {
  std::vector<RecordField> fields;
  for (const std::string& value : values) fields.push_back({kOidText, value});
  std::string bytes;
  AppendRecord(&bytes, fields);
  return bytes;
}

const std::string kTrue("\1", 1);
const std::string kFalse("\0", 1);

// Table 1 has the records of column 10, key (id, rk); table 2 the rows (id, split10, split11); 11 has no
// records.
class MrvOutcomesTest : public testing::Test {
 protected:
  MrvOutcomesTest() {
    auto catalog = std::make_shared<TableCatalog>();
    catalog->mrv_parts[kRecords] = {{kStock, 1, std::nullopt}};
    catalog->mrv_parts[kRows] = {{kStock, 1, 1}, {kReserved, 1, 2}};
    outcomes_.SetCatalog(catalog);
  }
  static void Record(proto::WriteSet* write_set, const std::string& id, const std::string& rk) {
    Row(write_set, kRecords, psp::sp::Record({id, rk}), psp::sp::Record({id, rk, "5"}));
  }
  static void Item(proto::WriteSet* write_set, const std::string& id, const std::string& stock_split,
                   const std::string& reserved_split) {
    Row(write_set, kRows, psp::sp::Record({id}), psp::sp::Record({id, stock_split, reserved_split}));
  }
  static void Row(proto::WriteSet* write_set, std::uint32_t table_id, std::string key, std::string image) {
    proto::Row* row = write_set->add_rows();
    row->set_table_id(table_id);
    row->set_key(std::move(key));
    row->set_image(std::move(image));
  }
  // "column:id+commits-aborts" of each, joined by spaces.
  std::string Take() {
    std::string text;
    for (const MrvOutcome& outcome : outcomes_.TakeReport().outcomes) {
      std::vector<RecordField> key;
      std::string_view bytes = outcome.key;
      EXPECT_EQ(DecodeRecord(&bytes, &key), "");
      EXPECT_EQ(key.size(), 1U);
      text += (text.empty() ? "" : " ") + std::to_string(outcome.column_id) + ":" +
              std::string(*key[0].value) + "+" + std::to_string(outcome.commits) + "-" +
              std::to_string(outcome.aborts);
    }
    return text;
  }

  MrvOutcomes outcomes_;
};

TEST_F(MrvOutcomesTest, ATransactionCountsOnceForEachValueWhateverRecordsItWrote) {
  proto::WriteSet write_set;
  Record(&write_set, "a", "1");
  Record(&write_set, "a", "2");
  Record(&write_set, "b", "1");
  Row(&write_set, kOther, psp::sp::Record({"a"}), "");
  outcomes_.Add(write_set, nullptr);
  outcomes_.Add(write_set, nullptr);
  EXPECT_EQ(Take(), "10:a+2-0 10:b+2-0");
  EXPECT_EQ(Take(), "");
}

TEST_F(MrvOutcomesTest, OnlyTheValueThatWasLostIsAborted) {
  proto::WriteSet write_set;
  Record(&write_set, "a", "1");
  Record(&write_set, "b", "1");
  const RowKey lost{kRecords, psp::sp::Record({"b", "1"})};
  outcomes_.Add(write_set, &lost);
  EXPECT_EQ(Take(), "10:b+0-1");
  const RowKey other{kOther, psp::sp::Record({"b"})};
  outcomes_.Add(write_set, &other);
  EXPECT_EQ(Take(), "");
}

TEST_F(MrvOutcomesTest, AValueInItsRowIsToldOnlyIfSomebodyLostOnIt) {
  proto::WriteSet write_set;
  Item(&write_set, "a", kFalse, kFalse);
  outcomes_.Add(write_set, nullptr);
  EXPECT_EQ(Take(), "");
  const RowKey lost{kRows, psp::sp::Record({"a"})};
  outcomes_.Add(write_set, nullptr);
  outcomes_.Add(write_set, &lost);
  EXPECT_EQ(Take(), "10:a+1-1 11:a+1-1");
}

TEST_F(MrvOutcomesTest, ARowSaysNothingAboutAValueThatStandsInRecords) {
  proto::WriteSet write_set;
  Item(&write_set, "a", kTrue, kFalse);
  const RowKey lost{kRows, psp::sp::Record({"a"})};
  outcomes_.Add(write_set, &lost);
  EXPECT_EQ(Take(), "11:a+0-1");
}

TEST_F(MrvOutcomesTest, DeletedRowsAndUnknownTablesAreNoOutcomes) {
  proto::WriteSet write_set;
  Row(&write_set, kRows, psp::sp::Record({"a"}), "");
  Row(&write_set, kRecords, "no key", "");
  const RowKey lost{kRows, psp::sp::Record({"a"})};
  outcomes_.Add(write_set, &lost);
  outcomes_.Add(write_set, nullptr);
  EXPECT_EQ(Take(), "");
}

TEST_F(MrvOutcomesTest, WithoutMrvsNothingIsCounted) {
  outcomes_.SetCatalog(std::make_shared<TableCatalog>());
  proto::WriteSet write_set;
  Record(&write_set, "a", "1");
  outcomes_.Add(write_set, nullptr);
  EXPECT_EQ(Take(), "");
}

}  // namespace
}  // namespace psp::sp
