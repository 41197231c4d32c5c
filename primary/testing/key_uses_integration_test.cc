// Keys that a transaction shares, ends or has read, against a real PostgreSQL.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "embedded/constants.h"
#include "primary/testing/primary_fixture.h"

namespace psp::primary {
namespace {

proto::KeyUses Use(proto::UseKind kind, const std::string& key) {
  proto::KeyUses uses;
  proto::KeyUse* use = uses.add_keys();
  use->set_kind(kind);
  use->set_table_id(1);
  use->set_key(key);
  return uses;
}

class KeyUsesTest : public PrimaryTest {
 protected:
  std::string NamesOfKeys() {
    std::string names;
    for (const auto& row : Sql("SELECT convert_from(key, 'UTF8') FROM psp.data ORDER BY 1"))
      names += row[0].as<std::string>() + " ";
    return names;
  }
};

TEST_F(KeyUsesTest, AChildAndTheEndOfItsParentDoNotBothCommit) {
  FakeSp a = Sp(1), b = Sp(2);
  Enter(a, 0);
  Enter(b, 0);
  ASSERT_EQ(Decide(a, 1, 0, Rows({{"child", "1"}}), {}, Use(proto::USE_SHARED, "parent")).global_t(), 1);
  EXPECT_EQ(Decide(b, 2, 0, Rows({{"child2", "1"}}), {}, Use(proto::USE_SHARED, "parent")).global_t(), 2);
  const auto lost = Decide(b, 3, 0, Rows({{"parent", std::nullopt}}), {2}, Use(proto::USE_ENDED, "parent"));
  ASSERT_TRUE(lost.has_conflict()) << lost.ShortDebugString();
  EXPECT_EQ(lost.conflict().key(), "parent");
  EXPECT_EQ(lost.conflict().use(), proto::USE_ENDED);
  EXPECT_EQ(lost.conflict().winner_t(), 1);
  EXPECT_EQ(lost.conflict().winner_sp_id(), 1U);
  EXPECT_EQ(NamesOfKeys(), "child child2 ") << "what is used is not written";
  // The repeated request of a loser gets the same conflict; its snapshot does not matter.
  const auto again = Decide(b, 3, 2, Rows({{"parent", std::nullopt}}), {}, Use(proto::USE_ENDED, "parent"));
  EXPECT_EQ(again.conflict().SerializeAsString(), lost.conflict().SerializeAsString());
  EXPECT_GT(Decide(b, 4, 2, Rows({{"parent", std::nullopt}}), {}, Use(proto::USE_ENDED, "parent")).global_t(),
            0);
  const auto orphan = Decide(a, 5, 2, Rows({{"child3", "1"}}), {}, Use(proto::USE_SHARED, "parent"));
  EXPECT_EQ(orphan.conflict().use(), proto::USE_SHARED);
}

TEST_F(KeyUsesTest, ARowThatWasReadIsLookedUpAndNotWritten) {
  FakeSp a = Sp(1), b = Sp(2);
  Enter(a, 0);
  Enter(b, 0);
  const GlobalT first = Decide(a, 1, 0, Rows({{"read", "1"}})).global_t();
  const auto lost = Decide(b, 2, 0, Rows({{"x", "1"}}), {}, Use(proto::USE_READ, "read"));
  ASSERT_TRUE(lost.has_conflict()) << lost.ShortDebugString();
  EXPECT_EQ(lost.conflict().key(), "read");
  EXPECT_TRUE(lost.conflict().has_use());
  EXPECT_EQ(lost.conflict().use(), proto::USE_READ);
  const auto again = Decide(b, 2, first, Rows({{"x", "1"}}), {}, Use(proto::USE_READ, "read"));
  EXPECT_EQ(again.conflict().SerializeAsString(), lost.conflict().SerializeAsString());
  EXPECT_GT(Decide(b, 3, first, Rows({{"x", "1"}}), {}, Use(proto::USE_READ, "read")).global_t(), 0);
  EXPECT_GT(Decide(a, 4, 0, Rows({{"y", "1"}}), {first}, Use(proto::USE_READ, "read")).global_t(), 0);
  EXPECT_GT(Decide(a, 5, 0, Rows({{"z", "1"}}), {}, Use(proto::USE_READ, "never there")).global_t(), 0);
  EXPECT_EQ(Sql("SELECT global_t FROM psp.data WHERE key = 'read'")[0][0].as<GlobalT>(), first);
  EXPECT_EQ(NamesOfKeys(), "read x y z ");
  const auto plainly = Decide(b, 6, 0, Rows({{"read", "2"}}));
  EXPECT_FALSE(plainly.conflict().has_use()) << "it would have written the key";
}

TEST_F(KeyUsesTest, AWaiterIsToldTheWinner) {
  FakeSp a = Sp(1), b = Sp(2);
  Enter(a, 0);
  Enter(b, 0);
  a.Certify(Id(1), 0, Rows({{"k", "1"}}));
  b.Certify(Id(2), 0, Rows({{"k", "2"}}));
  const auto first = NextDecision(a);
  const auto second = NextDecision(b);
  const auto& lost = first.has_conflict() ? first : second;
  const auto& won = first.has_conflict() ? second : first;
  EXPECT_EQ(lost.conflict().winner_t(), won.global_t());
  EXPECT_EQ(lost.conflict().winner_sp_id(), first.has_conflict() ? 2U : 1U);
}

TEST_F(KeyUsesTest, NothingButUsesAndAnAdvisoryLockMayCommit) {
  FakeSp a = Sp(1);
  Enter(a, 0);
  EXPECT_EQ(Decide(a, 1, 0, Rows({}), {}, Use(proto::USE_READ, "k")).global_t(), 1);
  proto::WriteSet lock = Rows({{"7", std::nullopt}});
  lock.mutable_rows(0)->set_table_id(kAdvisoryLocksId);
  lock.mutable_rows(0)->set_access(proto::ACCESS_GUARD);
  lock.mutable_rows(0)->set_deleted(false);
  EXPECT_EQ(Decide(a, 2, 1, lock).global_t(), 2);
  EXPECT_TRUE(Decide(a, 3, 1, lock).has_conflict());
}

TEST_F(KeyUsesTest, BadUsesAreRefused) {
  FakeSp a = Sp(1);
  Enter(a, 0);
  const auto unknown = Decide(a, 1, 0, Rows({{"x", "1"}}), {}, Use(static_cast<proto::UseKind>(77), "k"));
  EXPECT_THAT(unknown.error(), testing::HasSubstr("77"));
  proto::KeyUses elsewhere = Use(proto::USE_SHARED, "k");
  elsewhere.mutable_keys(0)->set_table_id(4711);
  EXPECT_THAT(Decide(a, 2, 0, Rows({{"x", "1"}}), {}, elsewhere).error(), testing::HasSubstr("4711"));
  EXPECT_EQ(Sql("SELECT FROM psp.data").size(), 0U);
}

}  // namespace
}  // namespace psp::primary
