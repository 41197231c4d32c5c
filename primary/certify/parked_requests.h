// Requests that wait undecided for another semi-primary's turn to end (table_holds.h, reservations.h), in the order in which they
// came. Pure; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "primary/certify/types.h"

namespace psp::primary {

class ParkedRequests {
 public:
  struct Parked {
    CertifyRequest request;
    std::int64_t since_us = 0;
  };

  bool Has(const TxId& tx_id) const { return by_id_.contains(tx_id); }
  // One that waits already is dropped.
  void Add(CertifyRequest request, std::int64_t now_us);
  // One that waits, which then needs not wait any more.
  std::optional<CertifyRequest> Take(const TxId& tx_id);

  // Those for which it is true need not wait any more.
  template <class Condition>
  void ReleaseIf(Condition condition) {
    for (auto one = parked_.begin(); one != parked_.end();) {
      const auto parked = one++;
      if (condition(*parked)) released_.push_back(Remove(parked));
    }
  }
  template <class Visit>
  void ForEach(Visit visit) const {
    for (const Parked& one : parked_) visit(one);
  }
  void ReleaseAll() {
    ReleaseIf([](const Parked&) { return true; });
  }
  // The released ones that were not taken yet, in the order in which they came.
  std::vector<CertifyRequest> TakeReleased() { return std::exchange(released_, {}); }

  // Of those that wait. Since when the first one has waited; nothing: nobody waits.
  std::optional<std::int64_t> oldest_us() const {
    return parked_.empty() ? std::nullopt : std::optional(parked_.front().since_us);
  }
  std::size_t size() const { return parked_.size(); }
  std::size_t bytes() const { return bytes_; }  // of their write-sets

 private:
  using Requests = std::list<Parked>;

  CertifyRequest Remove(Requests::iterator parked);

  Requests parked_;
  std::unordered_map<TxId, Requests::iterator> by_id_;
  std::size_t bytes_ = 0;
  std::vector<CertifyRequest> released_;
};

}  // namespace psp::primary
