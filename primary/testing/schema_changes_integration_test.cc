// What schema changes leave in the primary's database, against a real PostgreSQL. Part of
// primary_integration_test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/pg_binary.h"
#include "primary/testing/primary_fixture.h"
#include "writeset/table_form.h"

namespace psp::primary {
namespace {

class SchemaChangesTest : public PrimaryTest {
 protected:
  void SetUp() override {
    PrimaryTest::SetUp();
    if (!server_) return;
    Sql("INSERT INTO psp.tables VALUES (0, 'psp', 'schema_history', '[]', '[]'), (7, 'public', 'u', '[]', "
        "'[]')");
  }

  struct Changed {
    std::uint32_t table_id = 0;
    std::vector<std::uint32_t> guard_ids{};
    bool dropped = false;
    bool emptied = false;
  };
  // The schema change that makes this version.
  static proto::WriteSet Change(std::uint32_t version, const std::vector<Changed>& changes = {}) {
    proto::WriteSet change = Rows({{"change " + std::to_string(version), "a statement"}}, 0);
    change.set_kind(proto::ENTRY_SCHEMA_CHANGE);
    change.set_catalog_version(version);
    for (const Changed& one : changes) {
      proto::TableChange* table = change.add_table_changes();
      table->set_table_id(one.table_id);
      table->set_dropped(one.dropped);
      table->set_emptied(one.emptied);
      table->mutable_guard_ids()->Add(one.guard_ids.begin(), one.guard_ids.end());
      if (!one.dropped)
        table->set_form(
            EncodeTableForm({{{kOidText, -1, true}}, {{kOidText, std::nullopt, Normalise::kNone}}}));
    }
    return change;
  }
  // Rows of tables that schema changes have made: keys and images are records of one text.
  static proto::WriteSet Texts(const std::vector<std::pair<std::string, std::string>>& rows,
                               std::uint32_t table_id = 1) {
    std::vector<std::pair<std::string, std::optional<std::string>>> records;
    for (const auto& [key, image] : rows) {
      auto& [key_record, image_record] = records.emplace_back("", "");
      AppendRecord(&key_record, {{kOidText, key}});
      AppendRecord(&*image_record, {{kOidText, image}});
    }
    return Rows(records, table_id);
  }
  // The text of such a record; of other bytes they themselves.
  static std::string TextIn(std::string_view bytes) {
    std::vector<RecordField> fields;
    std::string_view rest = bytes;
    return std::string(DecodeRecord(&rest, &fields).empty() ? *fields.at(0).value : bytes);
  }
  static proto::WriteSet Under(std::uint32_t version, proto::WriteSet rows) {
    rows.set_catalog_version(version);
    return rows;
  }
  // A query's rows, with a blank between values.
  std::vector<std::string> Lines(const std::string& query) {
    std::vector<std::string> lines;
    for (const pqxx::row& row : Sql(query)) {
      std::string line;
      for (const pqxx::field& field : row) line += (line.empty() ? "" : " ") + std::string(field.c_str());
      lines.push_back(line);
    }
    return lines;
  }
  std::vector<std::string> Catalog() {
    std::vector<std::string> all = Lines("SELECT catalog_version FROM psp.cluster");
    for (const char* query :
         {"SELECT table_id, changed_in, dropped, of_table FROM psp.table_versions ORDER BY 1",
          "SELECT * FROM psp.catalog_versions ORDER BY 1"}) {
      const auto lines = Lines(query);
      all.insert(all.end(), lines.begin(), lines.end());
    }
    return all;
  }

  // All rows that a semi-primary that joins now would get, and the catalog's version of each part.
  struct Copy {
    std::vector<proto::Row> rows;
    std::vector<std::uint32_t> versions;
  };
  Copy ReadCopy(FakeSp& sp) {
    sp.SayHello(-1);
    EXPECT_TRUE(sp.Next()->has_welcome());
    sp.RequestStream(-1, true);
    Copy copy;
    while (const auto message = sp.Next()) {
      EXPECT_TRUE(message->has_copy_chunk()) << message->ShortDebugString();
      copy.rows.insert(copy.rows.end(), message->copy_chunk().rows().begin(),
                       message->copy_chunk().rows().end());
      copy.versions.push_back(message->copy_chunk().catalog_version());
      if (message->copy_chunk().last()) return copy;
    }
    ADD_FAILURE() << "the copy does not end";
    return copy;
  }
};

TEST_F(SchemaChangesTest, ACopyHasTheVersionOfEachRowAndNoDroppedTable) {
  FakeSp a = Sp(1);
  Enter(a, 0);
  Decide(a, 1, 0, Rows({{"first", "image"}}));
  Decide(a, 2, 0, Rows({{"first", "image"}}, 7));
  Decide(a, 3, 2, Change(2, {{1}}));
  Decide(a, 4, 3, Under(2, Texts({{"second", "image"}})));
  Decide(a, 5, 4, Change(3));
  Decide(a, 6, 5, Under(3, Texts({{"third", "image"}})));
  const GlobalT last = Decide(a, 7, 6, Rows({{"fourth", "image"}}, 7)).global_t();
  EXPECT_EQ(last, 7) << "its table has not changed";
  // It commits after the copy's moment, and before the rows are read.
  Sql("INSERT INTO psp.catalog_versions VALUES (4, 8); INSERT INTO psp.table_versions VALUES (7, 4, true)");
  FakeSp c = Sp(3);
  const Copy copy = ReadCopy(c);
  std::vector<std::pair<std::string, std::uint32_t>> found;
  for (const proto::Row& row : copy.rows) found.emplace_back(TextIn(row.key()), row.catalog_version());
  EXPECT_THAT(found, testing::ElementsAre(testing::Pair("change 2", 2), testing::Pair("change 3", 3),
                                          testing::Pair("third", 3), testing::Pair("second", 2),
                                          testing::Pair("first", 1)));
  EXPECT_THAT(copy.versions, testing::Each(3));
}

TEST_F(SchemaChangesTest, AnEmptiedTableHasOnlyWhatWasWrittenSince) {
  FakeSp a = Sp(1), b = Sp(2);
  Enter(a, 0);
  Enter(b, 0);
  Decide(a, 1, 0, Rows({{"early", "1"}, {"kept", "1"}}));
  Decide(a, 2, 0, Rows({{"early", "1"}}, 7));
  EXPECT_TRUE(Decide(b, 3, 1, Change(2, {{7, {}, false, true}})).older_catalog()) << "it lacks a row of a";
  proto::WriteSet change = Change(2, {{1, {}, false, true}});
  change.MergeFrom(Texts({{"own", "1"}}));
  change.set_catalog_version(2);
  const GlobalT emptied = Decide(a, 4, 2, change).global_t();
  EXPECT_GT(emptied, 0);
  EXPECT_TRUE(Decide(b, 5, 2, Rows({{"kept", "2"}})).older_catalog());
  EXPECT_GT(Decide(b, 6, emptied, Under(2, Texts({{"kept", "3"}}))).global_t(), 0);
  const auto copied = [this](std::uint64_t incarnation) {
    FakeSp joiner = Sp(3, incarnation);
    std::vector<std::string> keys;
    for (const proto::Row& row : ReadCopy(joiner).rows)
      keys.push_back(std::to_string(row.table_id()) + " " + TextIn(row.key()) + "=" + TextIn(row.image()));
    return keys;
  };
  const auto rows = testing::ElementsAre("0 change 2=a statement", "1 own=1", "1 kept=3", "7 early=1");
  EXPECT_THAT(copied(1), rows);
  Stop();
  Start();
  EXPECT_THAT(copied(2), rows) << "the database knows it";
}

TEST_F(SchemaChangesTest, TheCatalogChangesWithTheDecision) {
  FakeSp a = Sp(1), b = Sp(2);
  Enter(a, 0);
  Enter(b, 0);
  Decide(a, 1, 0, Rows({{"k", "1"}}));
  EXPECT_TRUE(Decide(b, 2, 0, Change(2, {{1}})).older_catalog()) << "it lacks rows of a";
  EXPECT_EQ(Decide(b, 3, 1, Change(2, {{1, {2, 9}}, {8, {10}}, {7, {}, true}})).global_t(), 2);
  const auto catalog =
      testing::ElementsAre("2", "1 2 f 1", "2 2 f 1", "7 2 t 7", "8 2 f 8", "9 2 f 1", "10 2 f 8", "2 2");
  EXPECT_THAT(Catalog(), catalog);
  EXPECT_TRUE(Decide(a, 4, 2, Rows({{"k", "2"}})).older_catalog());
  EXPECT_GT(Decide(a, 5, 2, Under(2, Texts({{"k", "2"}}))).global_t(), 2);
  EXPECT_GT(Decide(a, 6, 2, Under(2, Texts({{"k", "2"}}, 8))).global_t(), 3);
  Stop();
  Start();
  FakeSp later = Sp(2, 2);
  Enter(later, 4);
  EXPECT_TRUE(Decide(later, 7, 4, Rows({{"l", "1"}})).older_catalog()) << "the database knows it";
  EXPECT_TRUE(Decide(later, 8, 4, Rows({{"l", "1"}}, 7)).older_catalog());
  EXPECT_EQ(Decide(later, 9, 4, Under(2, Rows({{"l", "1"}}, 7))).error(),
            "the primary does not know table_id 7");
  EXPECT_EQ(Decide(later, 10, 4, Under(2, Rows({{"l", "1"}}))).error(),
            "malformed write-set: a key has not the form of table_id 1");
  EXPECT_EQ(Decide(later, 3, 1, Change(2, {{1, {2, 9}}, {8, {10}}, {7, {}, true}})).global_t(), 2)
      << "the repeated request";
  EXPECT_THAT(Catalog(), catalog);
}

TEST_F(SchemaChangesTest, OneThatLosesLeavesTheCatalog) {
  FakeSp a = Sp(1);
  Enter(a, 0);
  EXPECT_EQ(Decide(a, 1, 0, Change(2)).global_t(), 1);
  proto::WriteSet same_number = Change(2);
  same_number.set_catalog_version(3);
  EXPECT_TRUE(Decide(a, 2, 0, same_number).has_conflict());
  EXPECT_THAT(Catalog(), testing::ElementsAre("2", "2 1"));
  EXPECT_GT(Decide(a, 3, 1, Change(3)).global_t(), 1);
  EXPECT_EQ(Catalog().front(), "3");
}

TEST_F(SchemaChangesTest, LostSessionsLeaveNoGapInTheVersions) {
  FakeSp a = Sp(1);
  Enter(a, 0);
  GlobalT last = 0;
  for (std::uint32_t version = 2; version <= 20; ++version) {
    a.Certify(Id(static_cast<int>(version)), last, Change(version, {{1}}));
    EndExecutors();
    last = NextDecision(a).global_t();
    EXPECT_GT(last, 0);
  }
  EXPECT_THAT(Lines("SELECT catalog_version, changed_in FROM psp.cluster, psp.table_versions"),
              testing::ElementsAre("20 20"));
  EXPECT_EQ(
      Lines("SELECT version FROM psp.catalog_versions v JOIN psp.replication_log USING (global_t)").size(),
      19U);
}

}  // namespace
}  // namespace psp::primary
