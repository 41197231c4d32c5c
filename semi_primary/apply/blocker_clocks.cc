#include "semi_primary/apply/blocker_clocks.h"

#include <algorithm>

namespace psp {

std::vector<Blocker> BlockerClocks::Look(std::int64_t now_us, std::int64_t batch,
                                         const std::vector<Blocker>& blockers) {
  if (batch != batch_) root_since_us_.clear();
  const std::int64_t lost_us = std::max<std::int64_t>(now_us - looked_us_ - 2 * look_every_us_, 0);
  for (auto& [name, since_us] : root_since_us_) since_us += lost_us;
  batch_ = batch;
  looked_us_ = now_us;
  std::vector<Blocker> over;
  for (const Blocker& blocker : blockers) {
    const Name name{blocker.pid, blocker.xact_start};
    if (!blocker.is_root) {
      root_since_us_.erase(name);
      continue;
    }
    std::int64_t& since_us = root_since_us_.try_emplace(name, now_us).first->second;
    if (now_us - since_us < (blocker.is_in_deadlock ? 2 : 1) * grace_us_) continue;
    over.push_back(blocker);
    since_us = now_us;
  }
  return over;
}

}  // namespace psp
