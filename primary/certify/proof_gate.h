// Holds the results of batches until the WAL that they rest on is on the required copies (docs/decisions/48-decided-means-durable.md).
//
// Pure; one thread. WAL positions are of one server and one timeline, so they have one order: a look of any session proves the
// results of all others up to its position.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "primary/certify/types.h"

namespace psp::primary {

using WalPosition = std::uint64_t;  // bytes since the beginning of the WAL; 0: before all of it

// What a session saw after it had committed or read something.
struct Look {
  WalPosition written = 0;  // at or above all that the session has committed or could see
  WalPosition copied = 0;   // up to here the WAL is on the required copies

  bool proves(WalPosition position) const { return copied >= position; }
  bool is_proof() const { return proves(written); }
};

// Where no copy is required.
inline constexpr Look kNoCopies{0, std::numeric_limits<WalPosition>::max()};

// Nothing is remembered of a look: only one that is newer than a result proves it.
class ProofGate {
 public:
  // Takes the result of a batch, and the look that followed it.
  void Add(BatchResult result, const Look& look) {
    held_.push_back({look.written, std::move(result)});
    OnLook(look);
  }

  void OnLook(const Look& look) {
    const auto is_held = [&look](const Held& one) { return !look.proves(one.position); };
    const auto first = std::stable_partition(held_.begin(), held_.end(), is_held);
    for (auto one = first; one != held_.end(); ++one) proven_.push_back(std::move(one->result));
    held_.erase(first, held_.end());
  }

  // Results whose WAL is on the copies.
  std::vector<BatchResult> TakeProven() { return std::exchange(proven_, {}); }

  std::size_t held() const { return held_.size(); }
  // The lowest position that would prove a held result; nothing: nothing is held.
  std::optional<WalPosition> waits_for() const {
    const auto first = std::ranges::min_element(held_, {}, &Held::position);
    return first == held_.end() ? std::nullopt : std::optional(first->position);
  }

 private:
  struct Held {
    WalPosition position = 0;
    BatchResult result;
  };

  std::vector<Held> held_;
  std::vector<BatchResult> proven_;
};

}  // namespace psp::primary
