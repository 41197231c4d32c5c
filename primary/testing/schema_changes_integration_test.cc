// What schema changes leave in the primary's database, against a real PostgreSQL. Part of
// primary_integration_test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "primary/testing/primary_fixture.h"

namespace psp::primary {
namespace {

class SchemaChangesTest : public PrimaryTest {
 protected:
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
  Sql("INSERT INTO psp.tables VALUES (7, 'public', 'u', '[]', '[]')");
  FakeSp a = Sp(1);
  Enter(a, 0);
  for (int i = 1; i <= 5; ++i) Decide(a, i, 0, Rows({{"k" + std::to_string(i), "image"}}, i == 4 ? 7 : 1));
  Sql("INSERT INTO psp.catalog_versions VALUES (2, 2), (3, 5), (4, 6);"
      "INSERT INTO psp.table_versions VALUES (7, 4, true)");
  FakeSp c = Sp(3);
  const Copy copy = ReadCopy(c);
  std::vector<std::pair<std::string, std::uint32_t>> found;
  for (const proto::Row& row : copy.rows) found.emplace_back(row.key(), row.catalog_version());
  EXPECT_THAT(found, testing::ElementsAre(testing::Pair("k1", 1), testing::Pair("k2", 2),
                                          testing::Pair("k3", 2), testing::Pair("k5", 3)));
  EXPECT_THAT(copy.versions, testing::Each(3)) << "the drop is after the copy's moment";
}

}  // namespace
}  // namespace psp::primary
