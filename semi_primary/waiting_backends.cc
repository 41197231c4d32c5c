#include "semi_primary/waiting_backends.h"

#include <algorithm>

namespace psp {

void WaitingBackends::Add(HookConnectionId connection, int pid) {
  const std::lock_guard lock(mutex_);
  pids_[connection] = pid;
}

void WaitingBackends::Remove(HookConnectionId connection) {
  const std::lock_guard lock(mutex_);
  pids_.erase(connection);
}

bool WaitingBackends::Contains(int pid) const {
  const std::lock_guard lock(mutex_);
  return std::any_of(pids_.begin(), pids_.end(), [pid](const auto& entry) { return entry.second == pid; });
}

}  // namespace psp
