// Gives semi-primaries that lose again and again a fair chance: the one nearest to the primary would win contended keys
// for ever. All keys of a transaction that has lost are reserved for its semi-primary for about its round trip. Who would make it
// lose one of them again waits meanwhile, so that its next attempt, which has the newest rows, meets no younger ones.
// docs/decisions/39. Pure; one thread; time (monotonic microseconds) is an argument.
//
// Invariants
// - Nothing relies on a reservation: without it, or when its time is over, certification decides as ever.
// - A key has one reservation at a time, and has one for a part of the time only. Nobody waits longer than reservation_max_us.
// - Who waits holds no keys, and waits for older reservations than its semi-primary's own, so no two wait for each other.
// - Where nobody loses, nothing is remembered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "common/conflict.h"
#include "primary/certify/key_claims.h"
#include "primary/certify/parked_requests.h"
#include "primary/certify/round_trips.h"
#include "primary/certify/types.h"

namespace psp::primary {

class Reservations {
 public:
  struct Options {
    std::int64_t reservation_max_us = 1'000'000;  // 0: nothing is reserved
    std::size_t keys_max = 10'000;                // that are remembered
    std::size_t reserved_max = 1'000;             // keys at a time
    std::size_t parked_max = 1'000;
  };
  // Of one semi-primary.
  struct Counters {
    std::uint64_t losses = 0;        // of its transactions against those of others
    std::uint64_t reservations = 0;  // that have begun
    std::uint64_t used = 0;          // that ended with a commit of the lost key

    friend bool operator==(const Counters&, const Counters&) = default;
  };
  struct InForce {
    SpId sp_id = 0;
    RowKey lost;           // the key that the semi-primary has lost
    std::size_t keys = 0;  // that are reserved with it, itself among them
    std::int64_t since_us = 0;
    std::size_t waiting = 0;  // requests of others

    friend bool operator==(const InForce&, const InForce&) = default;
  };

  // The round trips must outlive it.
  Reservations(const Options& options, const RoundTrips& round_trips)
      : options_(options), round_trips_(round_trips) {}

  // The transaction has lost to one of another semi-primary. Its rows and uses are looked at, and whose it is.
  void OnLost(const CertifyRequest& request, const Conflict& conflict, std::int64_t now_us);
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

  std::size_t size() const { return reservations_.size(); }  // in force
  std::size_t parked() const { return parked_.size(); }
  // Of the write-sets that wait.
  std::size_t bytes() const { return parked_.bytes(); }

  // The oldest first.
  std::vector<InForce> in_force() const;
  const std::map<SpId, Counters>& counters() const { return counters_; }

 private:
  struct Key;
  struct Reservation {
    std::uint64_t number = 0;  // a younger one has a higher number
    SpId sp_id = 0;
    std::vector<Key*> keys;  // the first one is the lost one
    std::int64_t since_us = 0;
    std::int64_t until_us = 0;
  };
  struct Loser {
    SpId sp_id = 0;
    int lately = 0;            // how often it has lost; a commit halves it
    std::int64_t lost_us = 0;  // the last time
    std::int64_t had_us =
        0;  // for how long it was reserved for it; who comes later begins where the others are
  };
  struct Key {
    RowKey name;
    bool is_reference = false;
    std::vector<Loser> losers;           // nobody: it is reserved together with another one
    std::int64_t lost_us = 0;            // by anybody, the last time
    std::int64_t newcomer_had_us = 0;    // had_us of the last one that had its turn, before it
    Reservation* reservation = nullptr;  // null: it is free
    Access access = 0;                   // of the one that it is reserved for
    std::int64_t reserved_us = 0;        // for how long the last time
    std::int64_t free_since_us = 0;
    std::int64_t busy_us = 0;  // of the time since then
    std::int64_t used_us = 0;  // the last time
  };
  using Keys = std::unordered_map<RowKey, Key, RowKeyHash, RowKeyEqual>;  // what is in it stays where it is
  using List = std::list<Reservation>;

  Keys& KeysOf(bool is_reference) { return is_reference ? references_ : rows_; }
  const Key* Find(const KeyClaim& claim) const;
  Key* Find(const KeyClaim& claim);
  Key* Remember(const KeyClaim& claim);
  int LostLately(const std::vector<KeyClaim>& claims, SpId sp_id) const;
  bool IsNext(const std::vector<KeyClaim>& claims, SpId sp_id, Key* lost, std::int64_t now_us);
  void NoteUse(Key* key, SpId sp_id, std::int64_t now_us) const;
  static bool IsAvailable(const Key& key, std::int64_t now_us);
  void Reserve(const std::vector<KeyClaim>& claims, const KeyClaim& lost, SpId sp_id, std::int64_t now_us);
  void Add(const KeyClaim& claim, Reservation* reservation);
  List::iterator End(List::iterator ended, std::int64_t now_us);
  // The oldest reservation for which the request has to wait.
  const Reservation* WaitsFor(const CertifyRequest& request) const;
  void Release(std::int64_t now_us);
  std::int64_t TimeFor(SpId sp_id) const;

  const Options options_;
  const RoundTrips& round_trips_;
  Keys rows_;          // that somebody has lost not long ago, or that are reserved
  Keys references_;    // the same of keys that foreign keys refer to
  List reservations_;  // the oldest first
  std::uint64_t last_number_ = 0;
  std::size_t reserved_ = 0;  // keys
  bool has_ended_ = false;    // a reservation, since Release
  std::int64_t forget_at_us_ = 0;
  ParkedRequests parked_;
  std::map<SpId, Counters> counters_;
};

}  // namespace psp::primary
