// What goes into certification and what comes out. Values.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/conflict.h"
#include "common/epochs.h"
#include "common/ids.h"
#include "proto/psp.pb.h"

namespace psp::primary {

// Why a transaction cannot commit; the reason is empty if it can.
struct Refusal {
  std::string reason;
  bool older_catalog = false;  // the cluster's catalog is newer: the transaction may run again
};

// One transaction that asks to commit, or (with a refusal) one that must be recorded as aborted.
struct CertifyRequest {
  TxId tx_id;
  SpId sp_id = 0;
  std::uint64_t incarnation = 0;  // of the SP's daemon that sent it
  GlobalT watermark = 0;
  std::vector<GlobalT> seen;
  std::string write_set;  // serialised, as received
  proto::WriteSet rows;   // the same, parsed
  proto::KeyUses uses{};
  std::size_t uses_bytes = 0;  // of these, as received
  Refusal refusal{};           // with a reason: abort for it; rows and uses do not matter
  std::int64_t arrived_us = 0;
  std::int64_t admitted_us = 0;  // it needed not wait for others' turns any more

  std::size_t bytes() const { return write_set.size() + uses_bytes; }
};

// What a transaction could see; does not own the numbers.
struct SnapshotView {
  GlobalT watermark = 0;
  std::span<const GlobalT> seen;  // ascending, all > watermark

  bool Has(GlobalT global_t) const {
    return global_t <= watermark || std::ranges::binary_search(seen, global_t);
  }
};

// A decision, durable. Committed when global_t > 0; otherwise `conflict` or `reason` tells why not.
struct Verdict {
  GlobalT global_t = 0;
  std::optional<Conflict> conflict;
  std::string reason;
  std::string sqlstate{};  // with a reason: of PostgreSQL's error, unless it was decided before
  bool forgotten = false;  // with a reason: it may have committed so long ago that nobody knows it any more

  friend bool operator==(const Verdict&, const Verdict&) = default;
};

struct BatchItem {
  std::shared_ptr<const CertifyRequest> request;
  GlobalT global_t = 0;              // 0: it cannot commit
  std::string abort_reason;          // not empty exactly when global_t is 0
  std::optional<Conflict> conflict;  // with abort_reason: which key it has lost
  std::string sqlstate{};            // with abort_reason: of PostgreSQL's error
};

struct Batch {
  std::uint64_t batch_id = 0;
  std::vector<BatchItem> items;
  NumberRange numbers{};  // that were given to its items; 0, 0: none
};

struct BatchResult {
  std::uint64_t batch_id = 0;
  std::vector<Verdict> verdicts;  // one for each item, in their order
};

}  // namespace psp::primary
