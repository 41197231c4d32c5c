// The server that this daemon has taken over, and why a session that connects again must not go on: another server may answer at the
// address, or this one with an older state (docs/decisions/65-every-session-looks-where-it-is.md).
#pragma once

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>

#include "common/ids.h"
#include "primary/certify/proof_gate.h"

namespace psp::primary {

// What a session sees of the server that it is connected to.
struct ServerFacts {
  bool is_standby = false;
  std::string identity;     // the system's identifier and the database's oid
  std::string timeline;     // empty: a standby
  WalPosition written = 0;  // on its own disk
  GlobalT newest_t = 0;     // the newest number that is committed there
};

// Why what was `found` is not the server that was `known`, in a state at least as new. Empty: it is.
std::string ServerObjection(const ServerFacts& known, const ServerFacts& found);

// Any thread.
class ServedServer {
 public:
  explicit ServedServer(ServerFacts taken) : known_(std::move(taken)) {}

  // The WAL was seen on its disk up to here.
  void OnWritten(WalPosition position) {
    const std::lock_guard lock(mutex_);
    known_.written = std::max(known_.written, position);
  }
  // Somebody is about to hear that this number is committed.
  void OnTold(GlobalT global_t) {
    const std::lock_guard lock(mutex_);
    known_.newest_t = std::max(known_.newest_t, global_t);
  }
  ServerFacts known() const {
    const std::lock_guard lock(mutex_);
    return known_;
  }

 private:
  mutable std::mutex mutex_;
  ServerFacts known_;
};

}  // namespace psp::primary
