// Which of this semi-primary's COMMITs have reached the daemon and have no answer yet. Any thread may call.
#pragma once

#include <mutex>
#include <unordered_map>
#include <vector>

#include "common/ids.h"
#include "semi_primary/front/local_commit.h"

namespace psp::sp {

class CommitsInFlight {
 public:
  void Begin(Ticket ticket, const TxId& tx_id) {
    const std::scoped_lock lock(mutex_);
    commits_.insert_or_assign(ticket, tx_id);
  }

  // The answer has left, or nobody waits for one. Ignored when the ticket asked for something else.
  void End(Ticket ticket) {
    const std::scoped_lock lock(mutex_);
    commits_.erase(ticket);
  }

  std::vector<TxId> Ids() const {
    const std::scoped_lock lock(mutex_);
    std::vector<TxId> ids;
    ids.reserve(commits_.size());
    for (const auto& [ticket, tx_id] : commits_) ids.push_back(tx_id);
    return ids;
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<Ticket, TxId> commits_;
};

}  // namespace psp::sp
