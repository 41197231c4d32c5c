#include "writeset/check.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace psp
