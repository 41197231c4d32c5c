// Who holds which keys of those that wait or are in flight, and who waits for them. Pure; one thread.
//
// Transactions that only read a key, or only share it, hold it together; all others hold it alone. Nobody overtakes: who asks
// waits behind those that wait already.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "common/ids.h"

namespace psp::primary {

// How a transaction uses a key: one or more of these. A row's key is written or read; the key that foreign keys refer to is shared, ended,
// or all that refers to it is read.
using Access = std::uint8_t;
inline constexpr Access kWrites = 1;
inline constexpr Access kReads = 2;
inline constexpr Access kShares = 4;
inline constexpr Access kEnds = 8;
inline constexpr Access kReadsReferrers = 16;

inline bool MayHoldTogether(Access a, Access b) { return a == b && (a == kReads || a == kShares); }

// With which of its uses one that waits has lost when one that held the key commits: it came before that decision existed, and so cannot
// have seen it. 0: with none.
inline Access LostBy(Access waiting, Access winner) {
  if ((winner & kWrites) != 0) return waiting;
  Access lost = 0;
  if ((winner & kShares) != 0) lost |= waiting & (kEnds | kReadsReferrers);
  // Two may end the coarse key of their different rows (docs/decisions/36). Of one row they write it both.
  if ((winner & kEnds) != 0) lost |= waiting & kShares;
  return lost;
}

// Owners are not owned; each claims a key once.
template <class Owner>
class KeyLocks {
 public:
  struct Claim {
    Owner* owner = nullptr;
    Access access = 0;
  };

  // Whether the owner holds the key now; otherwise it waits.
  bool Take(const RowKeyView& key, Access access, Owner* owner) {
    auto found = queues_.find(key);
    if (found == queues_.end())
      found = queues_.emplace(RowKey{key.table_id, std::string(key.key)}, Queue{}).first;
    Queue& queue = found->second;
    queue.claims.push_back({owner, access});
    if (!NextMayHold(queue)) return false;
    ++queue.holders;
    return true;
  }

  // The owner holds it no more, nor waits for it. Calls `granted` with each owner that holds it now and waited before.
  template <class Granted>
  void Leave(const RowKeyView& key, const Owner* owner, Granted granted) {
    const auto found = queues_.find(key);
    assert(found != queues_.end());
    Queue& queue = found->second;
    const auto claim = std::ranges::find(queue.claims, owner, &Claim::owner);
    assert(claim != queue.claims.end());
    if (static_cast<std::size_t>(claim - queue.claims.begin()) < queue.holders) --queue.holders;
    queue.claims.erase(claim);
    if (queue.claims.empty()) {
      queues_.erase(found);
      return;
    }
    while (NextMayHold(queue)) granted(queue.claims[queue.holders++].owner);
  }

  // Calls `each` with every claim that waits for the key.
  template <class Each>
  void ForEachWaiting(const RowKeyView& key, Each each) const {
    const auto found = queues_.find(key);
    if (found == queues_.end()) return;
    const Queue& queue = found->second;
    for (std::size_t i = queue.holders; i < queue.claims.size(); ++i) each(queue.claims[i]);
  }

 private:
  struct Queue {
    std::vector<Claim> claims;  // in order of arrival
    std::size_t holders = 0;    // the first ones
  };

  static bool NextMayHold(const Queue& queue) {
    if (queue.holders == queue.claims.size()) return false;
    return queue.holders == 0 || MayHoldTogether(queue.claims[0].access, queue.claims[queue.holders].access);
  }

  std::unordered_map<RowKey, Queue, RowKeyHash, RowKeyEqual> queues_;
};

}  // namespace psp::primary
