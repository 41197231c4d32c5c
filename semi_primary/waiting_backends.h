// Which backends wait in the commit hook for a decision: the blocker watch leaves them alone.
#pragma once

#include <mutex>
#include <unordered_map>

#include "semi_primary/commit_hook/hook_server.h"

namespace psp {

// The pids of the backends that wait in the hook. Thread-safe.
class WaitingBackends {
 public:
  void Add(HookConnectionId connection, int pid);
  void Remove(HookConnectionId connection);
  bool Contains(int pid) const;

 private:
  mutable std::mutex mutex_;
  std::unordered_map<HookConnectionId, int> pids_;
};

}  // namespace psp
