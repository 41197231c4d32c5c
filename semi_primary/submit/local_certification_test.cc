#include "semi_primary/submit/local_certification.h"

#include <gtest/gtest.h>

#include <random>

namespace psp::sp {
namespace {

TxId Tx(char name) { return *TxId::FromBytes(std::string(16, name)); }

WriteSetPtr Rows(std::initializer_list<std::string> keys) {
  auto write_set = std::make_shared<proto::WriteSet>();
  for (const std::string& key : keys) {
    proto::Row* row = write_set->add_rows();
    row->set_table_id(1);
    row->set_key(key);
  }
  return write_set;
}

TEST(LocalCertification, NewCommitAgainstWhatArrived) {
  LocalCertification certification;
  EXPECT_TRUE(certification.Arrived(11, 2, Rows({"a", "b"})).empty());
  EXPECT_TRUE(certification.Arrived(12, 3, Rows({"b"})).empty());
  const auto conflict = certification.Add(Tx('t'), {10, {}}, Rows({"c", "b"}));
  ASSERT_TRUE(conflict.has_value());
  EXPECT_EQ(conflict->key.key, "b");
  EXPECT_EQ(conflict->winner_t, 12);
  EXPECT_EQ(conflict->winner_sp_id, 3U);
  EXPECT_FALSE(certification.Add(Tx('u'), {10, {12}}, Rows({"b"})));
  EXPECT_FALSE(certification.Add(Tx('v'), {12, {}}, Rows({"a"})));
  EXPECT_TRUE(certification.Add(Tx('w'), {10, {12}}, Rows({"a"})));
}

TEST(LocalCertification, AppliedIsForgotten) {
  LocalCertification certification;
  certification.Arrived(11, 2, Rows({"a", "b"}));
  certification.Arrived(12, 2, Rows({"b"}));
  certification.Applied(11);
  EXPECT_EQ(certification.arrived_transactions(), 1U);
  EXPECT_FALSE(certification.Add(Tx('t'), {10, {}}, Rows({"a"})));
  EXPECT_TRUE(certification.Add(Tx('u'), {11, {}}, Rows({"b"})));
  certification.ForgetArrived();
  EXPECT_FALSE(certification.Add(Tx('u'), {11, {}}, Rows({"b"})));
}

TEST(LocalCertification, ArrivingDoomsTheWaiting) {
  LocalCertification certification;
  certification.Add(Tx('t'), {10, {}}, Rows({"a", "b"}));
  certification.Add(Tx('u'), {10, {11}}, Rows({"c"}));
  certification.Add(Tx('v'), {11, {}}, Rows({"d"}));
  const auto doomed = certification.Arrived(11, 2, Rows({"d", "c", "b", "a"}));
  ASSERT_EQ(doomed.size(), 1U);  // once, though two keys meet
  EXPECT_EQ(doomed[0].tx_id, Tx('t'));
  EXPECT_EQ(doomed[0].conflict.key.key, "b");
  EXPECT_TRUE(certification.Arrived(12, 2, Rows({"a"})).empty());
}

WriteSetPtr Replacing(const std::string& key, GlobalT known_t) {
  auto write_set = std::make_shared<proto::WriteSet>(*Rows({key}));
  write_set->mutable_rows(0)->set_global_t(known_t);
  return write_set;
}

TEST(LocalCertification, AKnownVersionDecidesInsteadOfTheSnapshot) {
  LocalCertification certification;
  certification.Arrived(11, 2, Rows({"a"}));
  EXPECT_TRUE(certification.Add(Tx('t'), {11, {}}, Replacing("a", 10)));
  EXPECT_FALSE(certification.Add(Tx('u'), {10, {}}, Replacing("a", 11)));
  certification.Add(Tx('v'), {12, {}}, Replacing("b", 10));
  certification.Add(Tx('w'), {10, {}}, Replacing("c", 12));
  const auto doomed = certification.Arrived(12, 2, Rows({"b", "c"}));
  ASSERT_EQ(doomed.size(), 1U);
  EXPECT_EQ(doomed[0].tx_id, Tx('v'));
}

TEST(LocalCertification, RemovedIsNotDoomed) {
  LocalCertification certification;
  certification.Add(Tx('t'), {10, {}}, Rows({"a"}));
  certification.Remove(Tx('t'));
  certification.Remove(Tx('x'));
  EXPECT_TRUE(certification.Arrived(11, 2, Rows({"a"})).empty());
}

KeyUsesPtr Uses(std::initializer_list<std::pair<proto::UseKind, std::string>> keys) {
  auto uses = std::make_shared<proto::KeyUses>();
  for (const auto& [kind, key] : keys) {
    proto::KeyUse* use = uses->add_keys();
    use->set_kind(kind);
    use->set_table_id(1);
    use->set_key(key);
  }
  return uses;
}

WriteSetPtr Deleting(const std::string& key) {
  auto write_set = std::make_shared<proto::WriteSet>(*Rows({key}));
  write_set->mutable_rows(0)->set_deleted(true);
  return write_set;
}

class KeyUsesOf : public ::testing::Test {
 protected:
  // The conflict of a transaction that has used the key so and has seen everything up to 10.
  std::optional<Conflict> Add(char name, proto::UseKind kind, const std::string& key) {
    return certification_.Add(Tx(name), {10, {}}, Rows({}), Uses({{kind, key}}));
  }

  LocalCertification certification_;
};

TEST_F(KeyUsesOf, AReadRowMeetsWhoWritesIt) {
  EXPECT_FALSE(Add('t', proto::USE_READ, "a"));
  EXPECT_TRUE(certification_.Arrived(11, 2, Rows({"b"})).empty());
  const auto doomed = certification_.Arrived(12, 3, Rows({"c", "a"}));
  ASSERT_EQ(doomed.size(), 1U);
  EXPECT_EQ(doomed[0].tx_id, Tx('t'));
  EXPECT_EQ(doomed[0].conflict, (Conflict{{1, "a"}, 12, 3, proto::USE_READ}));
  EXPECT_EQ(Add('u', proto::USE_READ, "a"), (Conflict{{1, "a"}, 12, 3, proto::USE_READ}));
  certification_.Applied(12);
  EXPECT_FALSE(Add('v', proto::USE_READ, "a"));
}

TEST_F(KeyUsesOf, WhatTheSnapshotHasIsNoConflict) {
  certification_.Arrived(11, 2, Deleting("a"));
  for (const proto::UseKind kind : {proto::USE_READ, proto::USE_SHARED}) {
    EXPECT_FALSE(certification_.Add(Tx('t'), {11, {}}, Rows({}), Uses({{kind, "a"}}))) << kind;
    certification_.Remove(Tx('t'));
  }
  EXPECT_FALSE(certification_.Add(Tx('t'), {11, {}}, Rows({}), Uses({{proto::USE_TABLE_READ, ""}})));
}

TEST_F(KeyUsesOf, ASharedKeyMeetsOnlyWhoDeletesIt) {
  EXPECT_FALSE(Add('t', proto::USE_SHARED, "a"));
  EXPECT_TRUE(certification_.Arrived(11, 2, Rows({"a"})).empty());
  EXPECT_FALSE(Add('u', proto::USE_SHARED, "a"));
  const auto doomed = certification_.Arrived(12, 3, Deleting("a"));
  ASSERT_EQ(doomed.size(), 2U);
  for (const auto& one : doomed) EXPECT_EQ(one.conflict, (Conflict{{1, "a"}, 12, 3, proto::USE_SHARED}));
}

TEST_F(KeyUsesOf, AnEndedKeyStaysEndedWhenARowHasItAgain) {
  certification_.Arrived(11, 2, Deleting("a"));
  certification_.Arrived(12, 3, Rows({"a"}));
  EXPECT_EQ(Add('t', proto::USE_SHARED, "a"), (Conflict{{1, "a"}, 11, 2, proto::USE_SHARED}));
  certification_.Applied(11);
  EXPECT_FALSE(Add('t', proto::USE_SHARED, "a"));
}

TEST_F(KeyUsesOf, WhatASchemaChangeDeletesIsLeftToThePrimary) {
  auto change = std::make_shared<proto::WriteSet>(*Deleting("a"));
  change->set_kind(proto::ENTRY_SCHEMA_CHANGE);
  EXPECT_FALSE(Add('t', proto::USE_SHARED, "a"));
  EXPECT_TRUE(certification_.Arrived(11, 2, change).empty());
  EXPECT_FALSE(Add('u', proto::USE_SHARED, "a"));
  EXPECT_TRUE(Add('v', proto::USE_READ, "a"));
}

TEST_F(KeyUsesOf, AReadTableMeetsAnyRowOfIt) {
  EXPECT_FALSE(Add('t', proto::USE_TABLE_READ, ""));
  auto other = std::make_shared<proto::WriteSet>(*Rows({"a"}));
  other->mutable_rows(0)->set_table_id(2);
  EXPECT_TRUE(certification_.Arrived(11, 2, other).empty());
  const auto doomed = certification_.Arrived(12, 3, Rows({"a", "b"}));
  ASSERT_EQ(doomed.size(), 1U);
  EXPECT_EQ(doomed[0].conflict, (Conflict{{1, ""}, 12, 3, proto::USE_TABLE_READ}));
  EXPECT_EQ(Add('u', proto::USE_TABLE_READ, ""), (Conflict{{1, ""}, 12, 3, proto::USE_TABLE_READ}));
  certification_.Applied(12);
  EXPECT_FALSE(Add('u', proto::USE_TABLE_READ, ""));
}

TEST_F(KeyUsesOf, AReadTableMeetsWhoChangesIt) {
  auto change = std::make_shared<proto::WriteSet>();
  change->set_kind(proto::ENTRY_SCHEMA_CHANGE);
  change->add_table_changes()->set_table_id(1);
  EXPECT_FALSE(Add('t', proto::USE_TABLE_READ, ""));
  EXPECT_EQ(certification_.Arrived(11, 2, change).size(), 1U);
  EXPECT_TRUE(Add('u', proto::USE_TABLE_READ, ""));
}

TEST_F(KeyUsesOf, WhoSharesAKeyIsNotKnownHere) {
  EXPECT_FALSE(Add('t', proto::USE_ENDED, "a"));
  EXPECT_FALSE(Add('u', proto::USE_REFERRERS_READ, "a"));
  EXPECT_TRUE(certification_.Arrived(11, 2, Deleting("a")).empty());
  EXPECT_FALSE(Add('v', proto::USE_ENDED, "a"));
}

TEST_F(KeyUsesOf, OneThatUsesAKeyInTwoWaysIsDoomedOnce) {
  const auto both = Uses({{proto::USE_READ, "a"}, {proto::USE_SHARED, "a"}});
  for (const char name : {'t', 'u', 'v'}) certification_.Add(Tx(name), {10, {}}, Rows({"b"}), both);
  certification_.Remove(Tx('u'));
  EXPECT_EQ(certification_.Arrived(11, 2, Deleting("a")).size(), 2U);
  EXPECT_TRUE(certification_.Arrived(12, 2, Rows({"a", "b"})).empty());
}

// Random order of everything against the definition, mostly for the sanitizers: views must never dangle.
TEST(LocalCertification, AgreesWithTheDefinition) {
  std::mt19937 random(7);
  LocalCertification certification;
  std::vector<std::pair<GlobalT, std::string>> arrived;
  GlobalT applied = 0;
  for (GlobalT now = 1; now <= 3000; ++now) {
    const std::string key(1, static_cast<char>('a' + random() % 20));
    const std::string other(1, static_cast<char>('A' + random() % 20));
    certification.Arrived(now, 2, Rows({key, other}));
    arrived.emplace_back(now, key);
    arrived.emplace_back(now, other);
    if (random() % 3 == 0) {
      applied = std::max<GlobalT>(applied, now - random() % 30);
      certification.Applied(applied);
    }
    if (random() % 20 < 12) continue;  // nobody commits here
    const std::string mine(1, static_cast<char>('a' + random() % 20));
    bool expected = false;
    for (const auto& [t, written] : arrived) expected |= t > applied && written == mine;
    EXPECT_EQ(certification.Add(Tx('t'), {applied, {}}, Rows({mine})).has_value(), expected);
    certification.Remove(Tx('t'));
    const auto read = Uses({{proto::USE_READ, mine}, {proto::USE_ENDED, mine}});
    EXPECT_EQ(certification.Add(Tx('t'), {applied, {}}, Rows({}), read).has_value(), expected);
    certification.Remove(Tx('t'));
  }
}

}  // namespace
}  // namespace psp::sp
