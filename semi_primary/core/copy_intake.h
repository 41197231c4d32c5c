// The copy of the table that a joining semi-primary receives. Pure; one thread.
//
// The copy is taken from its first row to its last, or begins again after any interruption. It is never put
// together from parts of two copies.
#pragma once

#include <cstdint>
#include <optional>

#include "common/ids.h"
#include "proto/psp.pb.h"
#include "semi_primary/apply/types.h"

namespace psp::sp {

class CopyIntake {
 public:
  // `joining`: the database's copy was not complete when the daemon started.
  explicit CopyIntake(bool joining) : joining_(joining) {}

  // The apply worker has begun: what was received before is gone.
  void OnApplyStarted(bool joining);
  void OnApplyProgress(bool joining, std::int64_t rows_applied);
  // Whether the database is of the copy that was requested last. A watermark of an older one means nothing: the
  // primary may have lost transactions since.
  bool Counts(const ApplyProgress& progress) const {
    return !progress.joining || progress.copy_number == number_;
  }
  // The stream was requested: the rest of an incomplete copy does not count any more.
  void OnRequested();
  // The copy is worthless: the primary no longer has the transactions that must follow it.
  void Discard() { received_ = false; }

  // A step for the apply worker, without its generation; nothing when the chunk belongs to an older copy.
  // Only while awaits_rows().
  std::optional<ApplyStep> TakeChunk(const proto::CopyChunk& chunk);

  bool joining() const { return joining_; }
  bool received() const { return received_; }
  bool awaits_rows() const { return joining_ && !received_; }
  // Nothing in this database counts: the copy is not a whole state, also not with the stream up to
  // `position`.
  bool IsNeededAt(GlobalT position) const { return joining_ && (!received_ || position < complete_t_); }
  GlobalT complete_t() const { return complete_t_; }  // once received: a whole state when the stream is here
  std::int64_t rows_applied() const { return rows_applied_; }
  std::int64_t rows_total() const { return rows_total_; }

 private:
  bool joining_;
  std::uint64_t number_ = 0;     // of the copy that was requested last
  bool received_ = false;        // all of the table has arrived
  std::int64_t rows_done_ = -1;  // of the copy that is arriving; -1: none has begun
  GlobalT complete_t_ = 0;
  std::int64_t rows_applied_ = 0;
  std::int64_t rows_total_ = 0;  // estimate
};

}  // namespace psp::sp
