#include "semi_primary/core/copy_intake.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "embedded/constants.h"

namespace psp::sp {

void CopyIntake::OnApplyStarted(bool joining) {
  joining_ = joining;
  received_ = false;
  rows_done_ = -1;
}

void CopyIntake::OnApplyProgress(bool joining, std::int64_t rows_applied) {
  joining_ = joining;
  rows_applied_ = rows_applied;
}

void CopyIntake::OnRequested() {
  if (!received_) rows_done_ = -1;
  if (awaits_rows()) ++number_;
}

std::optional<ApplyStep> CopyIntake::TakeChunk(const proto::CopyChunk& chunk) {
  const std::int64_t rows_before = chunk.rows_done() - chunk.rows_size();
  const bool begins = rows_before == 0;
  if (!begins && rows_before != rows_done_) return std::nullopt;
  rows_done_ = chunk.rows_done();
  rows_total_ = std::max(chunk.rows_total(), chunk.rows_done());
  received_ = chunk.last();
  if (received_)
    complete_t_ = chunk.complete_t();  // the copy lacks rows that have changed since its snapshot
  auto rows = std::make_shared<proto::WriteSet>();
  *rows->mutable_rows() = chunk.rows();
  rows->set_catalog_version(chunk.catalog_version());
  // A statement comes alone (sql/primary/daemon/table_chunk.sql). Among other rows it is refused.
  const bool has_only_statements = std::ranges::all_of(
      rows->rows(), [](const proto::Row& row) { return row.table_id() == kSchemaHistoryId; });
  if (has_only_statements && !rows->rows().empty()) rows->set_kind(proto::ENTRY_SCHEMA_CHANGE);
  ApplyStep step;
  step.closed_t = chunk.snapshot_t();
  step.copied_rows = std::move(rows);
  step.copy_begins = begins;
  step.copy_is_complete = chunk.last();
  step.complete_t = chunk.complete_t();
  step.rows_done = chunk.rows_done();
  step.copy_number = number_;
  step.bytes = chunk.ByteSizeLong();
  return step;
}

}  // namespace psp::sp
