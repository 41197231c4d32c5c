#include "semi_primary/core/copy_intake.h"

#include <gtest/gtest.h>

#include "embedded/constants.h"

namespace psp::sp {
namespace {

proto::CopyChunk Chunk(int rows, std::int64_t rows_done, bool last = false, GlobalT complete_t = 0) {
  proto::CopyChunk chunk;
  chunk.set_snapshot_t(10);
  for (int i = 0; i < rows; ++i) chunk.add_rows()->set_table_id(1);
  chunk.set_rows_done(rows_done);
  chunk.set_last(last);
  chunk.set_complete_t(complete_t);
  chunk.set_catalog_version(4);
  return chunk;
}

TEST(CopyIntake, IsTakenFromItsFirstRowToItsLast) {
  CopyIntake copy(true);
  const auto first = copy.TakeChunk(Chunk(2, 2));
  ASSERT_TRUE(first);
  EXPECT_TRUE(first->copy_begins);
  EXPECT_EQ(first->copied_rows->rows_size(), 2);
  EXPECT_EQ(first->copied_rows->catalog_version(), 4U);
  EXPECT_EQ(first->copied_rows->kind(), proto::ENTRY_ROWS);
  const auto second = copy.TakeChunk(Chunk(1, 3));
  ASSERT_TRUE(second);
  EXPECT_FALSE(second->copy_begins);
  EXPECT_TRUE(copy.awaits_rows());
  const auto last = copy.TakeChunk(Chunk(0, 3, true, 12));
  ASSERT_TRUE(last);
  EXPECT_TRUE(last->copy_is_complete);
  EXPECT_FALSE(copy.awaits_rows());
}

TEST(CopyIntake, AStatementIsASchemaChange) {
  CopyIntake copy(true);
  proto::CopyChunk chunk = Chunk(1, 1);
  chunk.mutable_rows(0)->set_table_id(kSchemaHistoryId);
  EXPECT_EQ(copy.TakeChunk(chunk)->copied_rows->kind(), proto::ENTRY_SCHEMA_CHANGE);
  proto::CopyChunk mixed = Chunk(2, 3);
  mixed.mutable_rows(0)->set_table_id(kSchemaHistoryId);
  EXPECT_EQ(copy.TakeChunk(mixed)->copied_rows->kind(), proto::ENTRY_ROWS) << "and so it is refused";
}

TEST(CopyIntake, TheRestOfAnOlderCopyIsDropped) {
  CopyIntake copy(true);
  copy.TakeChunk(Chunk(2, 2));
  copy.OnRequested();
  EXPECT_FALSE(copy.TakeChunk(Chunk(1, 3)));
  EXPECT_FALSE(copy.TakeChunk(Chunk(0, 3, true)));
  EXPECT_TRUE(copy.awaits_rows());
  EXPECT_TRUE(copy.TakeChunk(Chunk(2, 2)));
  EXPECT_TRUE(copy.TakeChunk(Chunk(0, 2, true)));
}

TEST(CopyIntake, IsAWholeStateWhenTheStreamHasComeToItsEnd) {
  CopyIntake copy(true);
  EXPECT_TRUE(copy.IsNeededAt(100));
  copy.TakeChunk(Chunk(1, 1, true, 12));
  EXPECT_TRUE(copy.IsNeededAt(11));
  EXPECT_FALSE(copy.IsNeededAt(12));
  copy.Discard();
  EXPECT_TRUE(copy.IsNeededAt(12));
  EXPECT_TRUE(copy.awaits_rows());
}

TEST(CopyIntake, WhoHasJoinedNeedsNone) {
  CopyIntake copy(true);
  copy.TakeChunk(Chunk(1, 1, true, 12));
  copy.OnApplyProgress(false, 1);
  EXPECT_FALSE(copy.joining());
  EXPECT_FALSE(copy.IsNeededAt(0));
}

TEST(CopyIntake, AfterACrashItBeginsAgain) {
  CopyIntake copy(true);
  copy.TakeChunk(Chunk(1, 1, true, 12));
  copy.OnApplyStarted(true);
  EXPECT_TRUE(copy.awaits_rows());
  EXPECT_FALSE(copy.TakeChunk(Chunk(1, 2)));
}

}  // namespace
}  // namespace psp::sp
