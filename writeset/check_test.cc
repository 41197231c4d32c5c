#include "writeset/check.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "embedded/constants.h"

namespace psp {
namespace {

proto::WriteSet OneRow() {
  proto::WriteSet write_set;
  proto::Row* row = write_set.add_rows();
  row->set_table_id(1);
  row->set_key("key");
  row->set_image("image");
  return write_set;
}

TEST(ProblemOfTest, RowsAndGuardsArePermitted) {
  proto::WriteSet write_set = OneRow();
  proto::Row* guard = write_set.add_rows();
  guard->set_table_id(2);
  guard->set_key("value");
  guard->set_access(proto::ACCESS_GUARD);
  EXPECT_EQ(ProblemOf(write_set), "");
  EXPECT_EQ(ProblemOf(proto::WriteSet()), "");
}

TEST(ProblemOfTest, UnknownKindsAreRefused) {
  proto::WriteSet write_set = OneRow();
  write_set.mutable_rows(0)->set_access(static_cast<proto::AccessKind>(7));
  EXPECT_EQ(ProblemOf(write_set), "unknown access kind 7 in a write-set");
  proto::WriteSet entry;
  entry.set_kind(static_cast<proto::EntryKind>(5));
  EXPECT_EQ(ProblemOf(entry), "unknown kind 5 of an entry");
}

// As a newer psp would send them.
TEST(ProblemOfTest, UnknownKindsSurviveTheWire) {
  proto::WriteSet sent = OneRow();
  sent.set_kind(static_cast<proto::EntryKind>(5));
  sent.mutable_rows(0)->set_access(static_cast<proto::AccessKind>(7));
  proto::WriteSet received;
  ASSERT_TRUE(received.ParseFromString(sent.SerializeAsString()));
  EXPECT_EQ(ProblemOf(received), "unknown kind 5 of an entry");
  received.set_kind(proto::ENTRY_ROWS);
  EXPECT_EQ(ProblemOf(received), "unknown access kind 7 in a write-set");
}

TEST(ProblemOfTest, AStatementNeedsASchemaChange) {
  proto::WriteSet write_set = OneRow();
  write_set.mutable_rows(0)->set_table_id(kSchemaHistoryId);
  EXPECT_EQ(ProblemOf(write_set), "malformed write-set: a schema change among rows");
  write_set.set_kind(proto::ENTRY_SCHEMA_CHANGE);
  EXPECT_EQ(ProblemOf(write_set), "");
  write_set.mutable_rows(0)->clear_image();
  EXPECT_EQ(ProblemOf(write_set), "malformed write-set: a schema change without its statement");
}

proto::WriteSet OneStatement() {
  proto::WriteSet write_set = OneRow();
  write_set.mutable_rows(0)->set_table_id(kSchemaHistoryId);
  write_set.set_kind(proto::ENTRY_SCHEMA_CHANGE);
  return write_set;
}

TEST(ProblemOfTest, ASchemaChangeMayHaveRows) {
  proto::WriteSet write_set = OneRow();
  write_set.MergeFrom(OneStatement());
  write_set.MergeFrom(OneRow());
  EXPECT_EQ(ProblemOf(write_set), "");
  write_set.mutable_rows(2)->clear_key();
  EXPECT_EQ(ProblemOf(write_set), "malformed write-set: a row without a key");
}

TEST(ProblemOfTest, ASchemaChangeNamesWhatItChangesOnce) {
  proto::WriteSet write_set = OneStatement();
  proto::TableChange* one = write_set.add_table_changes();
  one->set_table_id(1);
  one->add_guard_ids(2);
  proto::TableChange* other = write_set.add_table_changes();
  other->set_table_id(3);
  EXPECT_EQ(ProblemOf(write_set), "");
  other->set_dropped(true);
  EXPECT_EQ(ProblemOf(write_set), "");
  other->add_guard_ids(1);
  EXPECT_EQ(ProblemOf(write_set), "malformed write-set: a changed table is named twice");
  other->clear_guard_ids();
  for (const std::uint32_t table_id : {0U, 0x80000000U}) {
    other->set_table_id(table_id);
    EXPECT_EQ(ProblemOf(write_set), "malformed write-set: impossible changed table") << table_id;
  }
  other->set_table_id(3);
  write_set.set_kind(proto::ENTRY_ROWS);
  EXPECT_EQ(ProblemOf(write_set), "malformed write-set: tables are changed among rows");
}

TEST(ProblemOfTest, MalformedRowsAreRefused) {
  proto::WriteSet write_set = OneRow();
  write_set.mutable_rows(0)->set_access(proto::ACCESS_GUARD);
  EXPECT_EQ(ProblemOf(write_set), "malformed write-set: a guard has a row");
  write_set = OneRow();
  write_set.mutable_rows(0)->clear_key();
  EXPECT_EQ(ProblemOf(write_set), "malformed write-set: a row without a key");
  write_set = OneRow();
  write_set.mutable_rows(0)->set_table_id(0x80000000U);
  EXPECT_EQ(ProblemOf(write_set), "malformed write-set: impossible table_id");
}

TEST(ProblemOfTest, AnAdvisoryLockIsAGuard) {
  proto::WriteSet write_set = OneRow();
  write_set.mutable_rows(0)->set_table_id(kAdvisoryLocksId);
  EXPECT_EQ(ProblemOf(write_set), "malformed write-set: an advisory lock is no guard");
  write_set.mutable_rows(0)->clear_image();
  write_set.mutable_rows(0)->set_access(proto::ACCESS_GUARD);
  EXPECT_EQ(ProblemOf(write_set), "");
}

void AddUse(proto::KeyUses* uses, proto::UseKind kind, std::uint32_t table_id, const std::string& key) {
  proto::KeyUse* use = uses->add_keys();
  use->set_kind(kind);
  use->set_table_id(table_id);
  use->set_key(key);
}

std::string ProblemOfUse(proto::UseKind kind, std::uint32_t table_id, const std::string& key) {
  proto::KeyUses uses;
  AddUse(&uses, proto::USE_SHARED, 3, "other");
  AddUse(&uses, kind, table_id, key);
  return ProblemOf(uses);
}

TEST(ProblemOfUsesTest, KnownKindsArePermitted) {
  EXPECT_EQ(ProblemOf(proto::KeyUses()), "");
  for (const proto::UseKind kind :
       {proto::USE_READ, proto::USE_SHARED, proto::USE_ENDED, proto::USE_REFERRERS_READ}) {
    EXPECT_EQ(ProblemOfUse(kind, 3, "key"), "") << kind;
    EXPECT_EQ(ProblemOfUse(kind, 3, ""), "malformed key use: no key") << kind;
  }
  EXPECT_EQ(ProblemOfUse(proto::USE_TABLE_READ, 3, ""), "");
  EXPECT_EQ(ProblemOfUse(proto::USE_TABLE_READ, 3, "key"), "malformed key use: a whole table has a key");
}

TEST(ProblemOfUsesTest, UnknownKindsSurviveTheWire) {
  proto::KeyUses sent;
  AddUse(&sent, static_cast<proto::UseKind>(9), 3, "key");
  proto::KeyUses received;
  ASSERT_TRUE(received.ParseFromString(sent.SerializeAsString()));
  EXPECT_EQ(ProblemOf(received), "unknown kind 9 of a key's use");
}

TEST(ProblemOfUsesTest, TheNumberIsThatOfATableOrGuard) {
  for (const std::uint32_t table_id : {0U, 0x7FFFFFFFU, 0x80000000U}) {
    EXPECT_EQ(ProblemOfUse(proto::USE_READ, table_id, "key"), "malformed key use: impossible table_id")
        << table_id;
  }
  EXPECT_EQ(ProblemOfUse(proto::USE_READ, 0x7FFFFFFEU, "key"), "");
}

TEST(ProblemOfUsesTest, AKeyIsUsedOnceOfEachKind) {
  EXPECT_EQ(ProblemOfUse(proto::USE_SHARED, 3, "other"), "malformed key use: a key is named twice");
  EXPECT_EQ(ProblemOfUse(proto::USE_SHARED, 4, "other"), "");
  EXPECT_EQ(ProblemOfUse(proto::USE_ENDED, 3, "other"), "");
}

TEST(ProblemOfUsesTest, TheSnapshotAscendsAboveItsWatermark) {
  const auto problem_of = [](std::int64_t watermark, const std::vector<std::int64_t>& seen) {
    proto::KeyUses uses;
    uses.mutable_ended_snapshot()->set_watermark(watermark);
    uses.mutable_ended_snapshot()->mutable_seen()->Add(seen.begin(), seen.end());
    return ProblemOf(uses);
  };
  EXPECT_EQ(problem_of(0, {}), "");
  EXPECT_EQ(problem_of(10, {11, 13}), "");
  EXPECT_EQ(problem_of(-1, {}), "malformed snapshot: a negative watermark");
  for (const std::vector<std::int64_t>& seen : {{10}, {11, 11}, std::vector<std::int64_t>{13, 11}}) {
    EXPECT_EQ(problem_of(10, seen), "malformed snapshot: `seen` does not ascend above the watermark");
  }
}

TEST(ProblemOfTest, ARowHasItsImageUnlessItIsDeleted) {
  proto::WriteSet write_set = OneRow();
  write_set.mutable_rows(0)->clear_image();
  EXPECT_EQ(ProblemOf(write_set), "malformed write-set: a row without its image");
  write_set.mutable_rows(0)->set_deleted(true);
  EXPECT_EQ(ProblemOf(write_set), "");
  write_set.mutable_rows(0)->set_image("image");
  EXPECT_EQ(ProblemOf(write_set), "malformed write-set: a deleted row has an image");
}

// It would go at the primary, and stay at the semi-primaries.
TEST(ProblemOfTest, OnlyAStatementTakesARowAway) {
  proto::WriteSet write_set = OneRow();
  proto::Row* row = write_set.mutable_rows(0);
  row->clear_image();
  row->set_deleted(true);
  row->set_gone_before(true);
  EXPECT_EQ(ProblemOf(write_set), "malformed write-set: a row is gone without a statement");
  write_set.set_kind(proto::ENTRY_SCHEMA_CHANGE);
  EXPECT_EQ(ProblemOf(write_set), "");
}

}  // namespace
}  // namespace psp
