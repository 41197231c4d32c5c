// Lets transactions of other semi-primaries that write certain tables wait, while one semi-primary changes these tables: a schema
// change must have seen all their rows (table_writers.h), and would lose again and again against writers that never
// rest. docs/decisions/34. Pure; one thread; time (monotonic microseconds) is an argument.
//
// Invariants
// - One semi-primary holds tables at a time; the others wait for their turn, in the order in which they asked.
// - Nothing relies on a hold: without it, or when its time is over, certification decides as ever.
// - Who waits holds no keys, and so keeps nobody from being certified who does not write these tables.
// - Transactions of the semi-primary itself pass: its PostgreSQL orders them by its locks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <vector>

#include "primary/certify/parked_requests.h"
#include "primary/certify/types.h"

namespace psp::primary {

struct HeldTables {
  SpId sp_id = 0;
  std::uint64_t hold_id = 0;      // of the semi-primary's last request
  std::uint64_t transaction = 0;  // the semi-primary's
  std::set<std::uint32_t> table_ids;
  std::int64_t timeout_us = 0;
};

class TableHolds {
 public:
  // A semi-primary that has asked before for another transaction gives that one up; for the same one it holds all tables together.
  void Ask(HeldTables hold);
  // The transaction has ended.
  void End(SpId sp_id, std::uint64_t transaction);
  // Of any transaction: it has committed, or the semi-primary has gone.
  void EndAllOf(SpId sp_id);
  // Ends the one whose time is over; returns it. To be called several times a second.
  std::optional<HeldTables> TakeExpired(std::int64_t now_us);

  // Whether the request has to wait. If so, it is taken; dropped if it waits already.
  bool Park(CertifyRequest* request);
  // One that waits, which then needs not wait any more.
  std::optional<CertifyRequest> TakeParked(const TxId& tx_id) { return parked_.Take(tx_id); }
  // Requests that need not wait any more, in the order in which they came.
  std::vector<CertifyRequest> TakeReleased() { return parked_.TakeReleased(); }

  bool is_active() const { return active_.has_value(); }
  std::size_t parked() const { return parked_.size(); }
  // Of the write-sets that wait.
  std::size_t bytes() const { return parked_.bytes(); }

  // The hold that is in force and was not granted yet: rows of its tables may still be in flight.
  const HeldTables* ungranted() const { return active_ && !granted_ ? &*active_ : nullptr; }
  void SetGranted() { granted_ = true; }

 private:
  bool Concerns(const CertifyRequest& request) const;
  void Release();

  std::optional<HeldTables> active_;
  bool granted_ = false;
  std::optional<std::int64_t> since_us_;  // of the active one, when TakeExpired has seen it first
  std::deque<HeldTables> waiting_;
  ParkedRequests parked_;
};

}  // namespace psp::primary
