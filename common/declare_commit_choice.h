// The settings of commit_choice.h, which two daemons have.
#pragma once

#include "common/commit_choice.h"
#include "common/config.h"

namespace psp {

inline void DeclareCommitChoice(Settings& settings, CommitChoice* into) {
  settings.Integer("log_commits_over_ms",
                   "each transaction that this daemon had for at least so long is logged with where the time "
                   "went; 0: each one; -1: none",
                   -1, -1, 3600000, &into->over_ms);
  settings.Integer("log_commits_one_in",
                   "one transaction of so many is logged step by step, for psp trace: the same ones in all "
                   "daemons that have the same number; 1: each one; 0: none",
                   0, 0, 1000000000, &into->one_in);
}

}  // namespace psp
