// Gives semi-primaries that lose a key again and again a fair chance: the one nearest to the primary would win a contended key
// for ever. The key is reserved for the loser for about its round trip. Writers of it at other semi-primaries wait meanwhile, so that
// the loser's next attempt, which has the newest row, meets no younger one. docs/decisions/39. Pure; one thread; time
// (monotonic microseconds) is an argument.
//
// Invariants
// - Nothing relies on a reservation: without it, or when its time is over, certification decides as ever.
// - A key is reserved for one semi-primary at a time, and for two ninths of the time at most. Nobody waits longer than reservation_max_us.
// - Who waits holds no keys. Who has a reservation itself does not wait, so no two wait for each other.
// - Where nobody loses, nothing is remembered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "primary/certify/parked_requests.h"
#include "primary/certify/types.h"

namespace psp::primary {

class Reservations {
 public:
  struct Options {
    std::int64_t reservation_max_us = 1'000'000;  // 0: nothing is reserved
    std::size_t keys_max = 10'000;                // that are remembered
    std::size_t reserved_max = 100;               // at a time
    std::size_t parked_max = 1'000;
  };
  struct Counters {
    std::uint64_t losses = 0;        // of all keys
    std::uint64_t reservations = 0;  // that have begun
    std::uint64_t used = 0;          // that ended with a commit of the loser

    friend bool operator==(const Counters&, const Counters&) = default;
  };

  explicit Reservations(const Options& options) : options_(options) {}

  // As the semi-primary has measured it.
  void SetRoundTrip(SpId sp_id, std::int64_t rtt_us);
  // A transaction of the semi-primary has lost the key to one of another semi-primary.
  void OnLost(SpId sp_id, const RowKey& key, std::int64_t now_us);
  void OnCommitted(const CertifyRequest& request, std::int64_t now_us);
  // The semi-primary has gone. Who waited for it is released by OnTime.
  void Forget(SpId sp_id);
  // To be called several times a second.
  void OnTime(std::int64_t now_us);

  // Whether the request has to wait. If so, it is taken; dropped if it waits already.
  bool Park(CertifyRequest* request, std::int64_t now_us);
  // One that waits, which then needs not wait any more.
  std::optional<CertifyRequest> TakeParked(const TxId& tx_id) { return parked_.Take(tx_id); }
  // Requests that need not wait any more, in the order in which they came.
  std::vector<CertifyRequest> TakeReleased() { return parked_.TakeReleased(); }

  std::size_t parked() const { return parked_.size(); }
  // Of the write-sets that wait.
  std::size_t bytes() const { return parked_.bytes(); }
  std::size_t reserved() const { return reserved_.size(); }
  const Counters& counters() const { return counters_; }

 private:
  struct Loser {
    SpId sp_id = 0;
    int in_a_row = 0;
    std::int64_t lost_us = 0;   // the last time
    std::int64_t turns_us = 0;  // for how long it had the key; who comes later begins where the others are
  };
  struct Key {
    std::vector<Loser> losers;
    SpId reserved_for = 0;          // 0: nobody
    std::int64_t since_us = 0;      // of the reservation
    std::int64_t until_us = 0;      // of the reservation
    std::int64_t free_from_us = 0;  // from then on it may be reserved again
    std::int64_t turn_us = 0;       // turns_us of the last one that had its turn, before it
    std::int64_t lost_us = 0;       // by anybody, the last time
  };
  using Keys = std::unordered_map<RowKey, Key, RowKeyHash, RowKeyEqual>;

  std::int64_t TimeFor(SpId sp_id) const;
  static bool IsNext(const Key& key, const Loser& loser, std::int64_t now_us);
  void Reserve(Keys::iterator key, Loser* loser, std::int64_t now_us);
  void End(Keys::iterator key, std::int64_t now_us);
  bool MustWait(const CertifyRequest& request) const;
  void Release(std::int64_t now_us);

  const Options options_;
  std::map<SpId, std::int64_t> rtt_us_;
  Keys keys_;  // that somebody has lost not long ago
  std::vector<RowKey> reserved_;
  bool has_ended_ = false;  // one of these, since Release
  std::int64_t forget_at_us_ = 0;
  ParkedRequests parked_;
  Counters counters_;
};

}  // namespace psp::primary
