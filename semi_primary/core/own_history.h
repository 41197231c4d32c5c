// Commits of this semi-primary's own transactions above W that are in the database or may come into it, and
// whether a crash of PostgreSQL has taken some that clients were told of. Pure; one thread.
//
// Until W has come to back_t(), a transaction whose snapshot is older may lack an own commit.
#pragma once

#include <optional>

#include "common/epochs.h"
#include "common/ids.h"

namespace psp::sp {

class OwnHistory {
 public:
  // `unsure`: PostgreSQL may have crashed while no daemon looked, and only the primary's closed_t tells how
  // far own commits may reach.
  explicit OwnHistory(bool unsure) : unsure_(unsure) {}

  // A commit that may be in the database before the stream has brought everything up to it.
  void Add(GlobalT global_t, const TxId& tx_id) { commits_.emplace(global_t, tx_id); }
  void OnApplied(GlobalT watermark) { commits_.erase(commits_.begin(), commits_.upper_bound(watermark)); }

  // The database has everything up to `watermark`, and `own` above it. Known commits that are missing were
  // taken by a crash; `watermark_before` is W before the crash. While joining, the copy replaces everything.
  void OnApplyStarted(GlobalT watermark_before, GlobalT watermark, const Commits& own, bool joining);
  // `closed_t`: the primary's. `is_other`: of another epoch than before; what it does not have was lost, and does not come back.
  void OnWelcome(GlobalT closed_t, bool is_other);

  // Whether own commits that a crash took may not be back.
  bool IsLacking(GlobalT watermark) const { return unsure_ || watermark < back_t_; }
  GlobalT back_t() const { return back_t_; }
  const Commits& commits() const { return commits_; }

 private:
  Commits commits_;
  bool unsure_;
  GlobalT back_t_ = 0;
  bool has_started_ = false;
  // What sessions have committed that an earlier daemon has told is not above this. They may do so when this
  // daemon has already read what there is, and a crash may take it then. Nothing: not known yet.
  std::optional<GlobalT> earlier_t_;
};

}  // namespace psp::sp
