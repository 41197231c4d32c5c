#include "semi_primary/apply/blocker_clocks.h"

#include <algorithm>

namespace psp::sp {

std::int64_t BlockerClocks::GraceOf(const Blocker& blocker) const {
  if (blocker.is_committing) return options_.grace_us + options_.commit_us;
  return (blocker.is_in_deadlock ? 2 : 1) * options_.grace_us;
}

std::vector<Blocker> BlockerClocks::TakeOverdue(std::int64_t now_us, std::int64_t batch,
                                                const std::vector<Blocker>& blockers) {
  if (batch != batch_) roots_.clear();
  const std::int64_t lost_us = std::max<std::int64_t>(now_us - looked_us_ - 2 * options_.look_every_us, 0);
  for (auto& [name, root] : roots_) root.since_us += lost_us;
  batch_ = batch;
  looked_us_ = now_us;
  std::vector<Blocker> over;
  for (const Blocker& blocker : blockers) {
    const Name name{blocker.pid, blocker.xact_start};
    if (!blocker.is_root) {
      roots_.erase(name);
      continue;
    }
    Root& root = roots_.try_emplace(name, Root{now_us}).first->second;
    if (now_us - root.since_us < GraceOf(blocker)) continue;
    over.push_back(blocker);
    over.back().again = root.was_over;
    root = {now_us, true};
  }
  return over;
}

}  // namespace psp::sp
