#include "semi_primary/apply/batch.h"

#include <gtest/gtest.h>

#include "common/pg_binary.h"
#include "embedded/constants.h"

namespace psp::sp {
namespace {

std::string Record(const std::vector<std::string>& values) {
  std::vector<RecordField> fields;
  for (const std::string& value : values) fields.push_back({kOidText, value});
  std::string out;
  AppendRecord(&out, fields);
  return out;
}

constexpr std::uint32_t kRowType = 20000;
constexpr std::uint32_t kKeyType = 20001;
constexpr std::size_t kArrayOfOneBytes = 24;  // what comes before the element

// As a table's functions take them: each row with its values, in the order in which they were written.
std::string Array(std::uint32_t type, const std::vector<std::string>& records) {
  ArrayWriter writer(type);
  for (const std::string& record : records) writer.Add(std::string_view(record));
  return writer.Finish();
}
std::string Rows(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::string> records;
  for (const auto& row : rows) records.push_back(Record(row));
  return Array(kRowType, records);
}
std::string Keys(const std::vector<std::string>& keys) {
  std::vector<std::string> records;
  for (const std::string& key : keys) records.push_back(Record({key}));
  return Array(kKeyType, records);
}

class BatchTest : public ::testing::Test {
 protected:
  BatchTest() {
    catalog_.version = 2;
    catalog_.tables[1] = {1, "public", "t", {"k"}, {kRowType, {kOidText, kOidText}}, {kKeyType, {kOidText}}};
    catalog_.guards[2] = {1, "t_v"};
    for (const std::uint32_t id : {3, 4, 5}) {
      catalog_.tables[id] = {id,  "public", "always", {"k"}, {kRowType, {kOidText}}, {kKeyType, {kOidText}},
                             true};
    }
  }
  static void Upsert(proto::WriteSet* set, std::uint32_t table, const std::string& key,
                     const std::vector<std::string>& image) {
    proto::Row* row = set->add_rows();
    row->set_table_id(table);
    row->set_key(Record({key}));
    row->set_image(Record(image));
  }
  static void Delete(proto::WriteSet* set, const std::string& key) {
    proto::Row* row = set->add_rows();
    row->set_table_id(1);
    row->set_key(Record({key}));
    row->set_deleted(true);
  }
  static void Guard(proto::WriteSet* set) {
    proto::Row* row = set->add_rows();
    row->set_table_id(2);
    row->set_key(Record({"guarded"}));
    row->set_access(proto::ACCESS_GUARD);
  }
  std::vector<TableChange> Build(bool replace_all = false) {
    auto built = BuildBatch(catalog_, {{1, &first_}, {2, &second_}}, replace_all);
    EXPECT_TRUE(built.ok());
    return built.ok() ? *built : std::vector<TableChange>();
  }

  TableCatalog catalog_;
  proto::WriteSet first_;
  proto::WriteSet second_;
};

TEST_F(BatchTest, LastWriterOfAKeyWins) {
  Upsert(&first_, 1, "a", {"a", "1"});
  Upsert(&first_, 1, "b", {"b", "1"});
  Delete(&first_, "c");
  Upsert(&second_, 1, "a", {"a", "2"});
  Delete(&second_, "b");
  Upsert(&second_, 1, "c", {"c", "2"});
  const auto changes = Build();
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_FALSE(changes[0].replace);
  EXPECT_EQ(changes[0].upsert_values, Rows({{"a", "2"}, {"c", "2"}}));
  EXPECT_EQ(changes[0].delete_keys, Keys({"b"}));
}

// Types that users have made have another number at each semi-primary.
TEST_F(BatchTest, RowsGetTheTypesOfThisDatabase) {
  Upsert(&first_, 1, "a", {"a", "1"});
  catalog_.tables[1].columns.fields[1] = 30000;
  std::string row;
  AppendRecord(&row, {{kOidText, "a"}, {30000, "1"}});
  EXPECT_EQ(Build()[0].upsert_values, Array(kRowType, {row}));
}

TEST_F(BatchTest, GuardsMakeATableReplaced) {
  Upsert(&first_, 1, "a", {"a", "1"});
  Guard(&second_);
  const auto changes = Build();
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_TRUE(changes[0].replace);
  EXPECT_EQ(changes[0].delete_keys, Keys({"a"}));
}

TEST_F(BatchTest, RowsWhoseUniqueValuesChangeMakeWayWhereTheyCanBeTold) {
  catalog_.tables.at(1).makes_way = true;
  Upsert(&first_, 1, "a", {"a", "1"});
  Delete(&first_, "b");
  EXPECT_FALSE(Build()[0].make_way);
  Guard(&second_);
  const auto changes = Build();
  EXPECT_TRUE(changes[0].make_way);
  EXPECT_FALSE(changes[0].replace);
  EXPECT_EQ(changes[0].delete_keys, Keys({"b"}));
  EXPECT_FALSE(Build(true)[0].make_way);
}

TEST_F(BatchTest, SomeTablesAreAlwaysReplacedAndAllWhenAsked) {
  Upsert(&first_, 1, "a", {"a", "1"});
  Upsert(&first_, 3, "a", {"a"});
  auto changes = Build();
  ASSERT_EQ(changes.size(), 2U);
  EXPECT_FALSE(changes[0].replace);
  EXPECT_TRUE(changes[1].replace);
  EXPECT_TRUE(Build(true)[0].replace);
}

TEST_F(BatchTest, TablesComeInTheOrderInWhichTheyAreWritten) {
  const auto order = [this] {
    std::vector<std::uint32_t> ids;
    for (const TableChange& change : Build()) ids.push_back(change.table->table_id);
    return ids;
  };
  using Ids = std::vector<std::uint32_t>;
  for (const std::uint32_t id : {5, 3, 5}) Upsert(&first_, id, "a", {"a"});
  EXPECT_EQ(order(), (Ids{5, 3}));
  for (const std::uint32_t id : {4, 3}) Upsert(&second_, id, "a", {"a"});
  EXPECT_EQ(order(), (Ids{5, 4, 3}));
  Guard(&second_);  // of a table whose row comes after it
  Upsert(&second_, 1, "a", {"a", "1"});
  Upsert(&second_, 5, "b", {"b"});  // the other way round: what has a place keeps it
  EXPECT_EQ(order(), (Ids{1, 5, 4, 3}));
}

TEST_F(BatchTest, VersionedTablesGetTheNumberOfEachRowsLastWriter) {
  const auto with_number = [](const std::vector<std::string>& values, GlobalT global_t) {
    std::string number;
    AppendInt64(&number, global_t);
    std::vector<RecordField> fields;
    for (const std::string& value : values) fields.push_back({kOidText, value});
    fields.push_back({kOidInt8, number});
    std::string record;
    AppendRecord(&record, fields);
    return record;
  };
  CapturedTable& table = catalog_.tables[1];
  table.versioned = true;
  table.columns.fields.push_back(kOidInt8);
  table.key.fields.push_back(kOidInt8);
  Upsert(&first_, 1, "a", {"a", "1"});
  Upsert(&first_, 1, "b", {"b", "1"});
  Upsert(&second_, 1, "a", {"a", "2"});
  Delete(&second_, "c");
  const auto changes = Build();
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].upsert_values,
            Array(kRowType, {with_number({"a", "2"}, 2), with_number({"b", "1"}, 1)}));
  EXPECT_EQ(changes[0].delete_keys, Array(kKeyType, {with_number({"c"}, 2)}));
}

TEST_F(BatchTest, OnlyGuardsChangeNothing) {
  Guard(&first_);
  EXPECT_TRUE(Build().empty());
}

TEST_F(BatchTest, BadRows) {
  Upsert(&first_, 9, "a", {"a"});
  auto built = BuildBatch(catalog_, {{1, &first_}}, false);
  ASSERT_FALSE(built.ok());
  EXPECT_TRUE(built.error().catalog_may_be_old);
  first_.Clear();
  Upsert(&first_, 1, "a", {"a"});  // one column too few
  built = BuildBatch(catalog_, {{1, &first_}}, false);
  ASSERT_FALSE(built.ok());
  EXPECT_FALSE(built.error().catalog_may_be_old);
  first_.Clear();
  Upsert(&first_, 1, "a", {"a", "1"});
  first_.mutable_rows(0)->clear_image();
  EXPECT_FALSE(BuildBatch(catalog_, {{1, &first_}}, false).ok());
}

TEST_F(BatchTest, UnknownKindsAreRefusedWithAReason) {
  Upsert(&first_, 1, "a", {"a", "1"});
  first_.mutable_rows(0)->set_access(static_cast<proto::AccessKind>(7));
  auto built = BuildBatch(catalog_, {{15, &first_}}, false);
  ASSERT_FALSE(built.ok());
  EXPECT_EQ(built.error().message, "global_t 15: unknown access kind 7 in a write-set");
  EXPECT_FALSE(built.error().catalog_may_be_old);
  first_.Clear();
  first_.set_kind(static_cast<proto::EntryKind>(5));
  built = BuildBatch(catalog_, {{15, &first_}}, false);
  ASSERT_FALSE(built.ok());
  EXPECT_EQ(built.error().message, "global_t 15: unknown kind 5 of an entry");
}

TEST_F(BatchTest, ANewerCatalogIsReadBeforeItsRowsAreWritten) {
  Upsert(&first_, 1, "a", {"a", "1"});
  for (const std::uint32_t version : {1U, 2U}) {
    first_.set_catalog_version(version);
    EXPECT_TRUE(BuildBatch(catalog_, {{15, &first_}}, false).ok()) << version;
  }
  first_.set_catalog_version(3);
  const auto built = BuildBatch(catalog_, {{15, &first_}}, false);
  ASSERT_FALSE(built.ok());
  EXPECT_TRUE(built.error().catalog_may_be_old);
  EXPECT_EQ(built.error().message,
            "global_t 15: written under version 3 of the catalog, this semi-primary has version 2");
}

// It has the version which it makes.
TEST_F(BatchTest, ASchemaChangeIsNotComparedWithTheCatalog) {
  catalog_.tables[kSchemaHistoryId] = {
      kSchemaHistoryId, "psp", "schema_history", {"n"}, {kRowType, {kOidText}}, {kKeyType, {kOidText}}};
  Upsert(&first_, kSchemaHistoryId, "1", {"1"});
  first_.set_kind(proto::ENTRY_SCHEMA_CHANGE);
  first_.set_catalog_version(3);
  EXPECT_TRUE(BuildBatch(catalog_, {{15, &first_}}, false).ok());
}

TEST_F(BatchTest, ASegmentIsBuiltAlone) {
  for (const std::string key : {"a", "b", "a"}) Upsert(&first_, 1, key, {key, "1"});
  first_.set_kind(proto::ENTRY_SCHEMA_CHANGE);
  first_.set_catalog_version(3);
  const auto keys = [this](const Segment& rows) {
    const auto built = BuildBatch(catalog_, {{15, &first_, rows}}, true);
    return built.ok() ? (*built)[0].delete_keys : built.error().message;
  };
  EXPECT_EQ(keys({0, 2}), Keys({"a", "b"}));
  EXPECT_EQ(keys({1, 3}), Keys({"b", "a"}));
  EXPECT_EQ(keys({2, 3}), Keys({"a"}));
  EXPECT_EQ(keys({}), Keys({"a", "b"}));
}

TEST_F(BatchTest, AGuardOfAnIndexThatTheSchemaChangeHasDroppedIsNothing) {
  Upsert(&first_, 1, "a", {"a", "1"});
  Guard(&first_);
  catalog_.guards.clear();
  EXPECT_FALSE(BuildBatch(catalog_, {{15, &first_}}, false).ok());
  first_.set_kind(proto::ENTRY_SCHEMA_CHANGE);
  const auto built = BuildBatch(catalog_, {{15, &first_}}, false);
  ASSERT_TRUE(built.ok());
  EXPECT_FALSE((*built)[0].replace);
}

TEST_F(BatchTest, AnAdvisoryLockBelongsToNoTable) {
  Guard(&first_);
  first_.mutable_rows(0)->set_table_id(kAdvisoryLocksId);
  EXPECT_TRUE(Build().empty());
  Upsert(&first_, 1, "a", {"a", "1"});
  const auto changes = Build();
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_FALSE(changes[0].replace);
  first_.mutable_rows(0)->set_access(proto::ACCESS_WRITE);
  EXPECT_FALSE(BuildBatch(catalog_, {{1, &first_}}, false).ok());
}

TEST_F(BatchTest, AdvisoryLocksOfABatch) {
  EXPECT_EQ(AdvisoryLocksOf({{1, &first_}}), "");
  std::string keys[2];
  ArrayWriter array(kOidInt8);
  for (const std::int64_t number : {0, 1}) {
    std::string value;
    AppendInt64(&value, number - 1);
    AppendRecord(&keys[number], {{kOidInt8, value}});
    array.AddInt8(number - 1);
  }
  for (const int n : {1, 0, 1}) {
    Guard(&first_);
    proto::Row* row = first_.mutable_rows(first_.rows_size() - 1);
    row->set_table_id(kAdvisoryLocksId);
    row->set_key(keys[n]);
  }
  Upsert(&first_, 1, "a", {"a", "1"});
  EXPECT_EQ(AdvisoryLocksOf({{1, &first_}, {2, &first_}}), array.Finish());
}

class OlderImageTest : public BatchTest {
 protected:
  // Up to version 2 the table had v, k and a column that is gone; up to version 4 k only.
  OlderImageTest() {
    catalog_.version = 9;
    catalog_.tables[1].columns.fields.push_back(kOidText);
    catalog_.tables[1].older_images = {
        {2, {{1, std::nullopt}, {0, std::nullopt}, {std::nullopt, "new"}}},
        {4, {{0, std::nullopt}, {std::nullopt, std::nullopt}, {std::nullopt, ""}}}};
  }
  void Written(std::uint32_t version, const std::vector<std::string>& image) {
    first_.Clear();
    Upsert(&first_, 1, "k", image);
    first_.mutable_rows(0)->set_catalog_version(version);
  }
  // Of the only row, "-" for NULL.
  std::vector<std::string> Values() {
    const auto built = BuildBatch(catalog_, {{1, &first_}}, false);
    if (!built) return {built.error().message};
    std::string_view record = (*built)[0].upsert_values;
    record.remove_prefix(kArrayOfOneBytes);
    std::vector<RecordField> fields;
    EXPECT_EQ(DecodeRecord(&record, &fields), "");
    std::vector<std::string> values;
    for (const RecordField& field : fields) values.emplace_back(field.value.value_or("-"));
    return values;
  }
};

TEST_F(OlderImageTest, BecomesARowOfToday) {
  using Strings = std::vector<std::string>;
  for (const std::uint32_t version : {1U, 2U}) {
    Written(version, {"v", "k", "gone"});
    EXPECT_EQ(Values(), (Strings{"k", "v", "new"})) << version;
  }
  for (const std::uint32_t version : {3U, 4U}) {
    Written(version, {"k"});
    EXPECT_EQ(Values(), (Strings{"k", "-", ""})) << version;
  }
  for (const std::uint32_t version : {5U, 9U, 0U}) {  // 0: not of a copy
    Written(version, {"k", "v", "new"});
    EXPECT_EQ(Values(), (Strings{"k", "v", "new"})) << version;
  }
}

TEST_F(OlderImageTest, APlaceOutOfRangeIsMalformed) {
  Written(2, {"v"});
  EXPECT_EQ(Values(), std::vector<std::string>{"a row of public.t has a malformed image"});
  Written(5, {"v", "k"});
  EXPECT_EQ(Values(), std::vector<std::string>{"a row of public.t has a malformed image"});
  catalog_.tables[1].older_images[2].pop_back();  // not so many columns as the table has
  Written(2, {"v", "k", "gone"});
  EXPECT_EQ(Values(), std::vector<std::string>{"a row of public.t has a malformed image"});
}

}  // namespace
}  // namespace psp::sp
