// What goes into certification and what comes out. Values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
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
  Refusal refusal{};      // with a reason: abort for it; the rows do not matter
};

// A decision, durable. Committed when global_t > 0; otherwise `conflict` or `reason` tells why not.
struct Verdict {
  GlobalT global_t = 0;
  std::optional<Conflict> conflict;
  std::string reason;
  std::string sqlstate{};  // with a reason: of PostgreSQL's error, unless it was decided before

  friend bool operator==(const Verdict&, const Verdict&) = default;
};

struct BatchItem {
  std::shared_ptr<const CertifyRequest> request;
  GlobalT global_t = 0;           // 0: it cannot commit
  std::string abort_reason;       // not empty exactly when global_t is 0
  std::optional<RowKey> lost_on;  // look up this key alone, to name the winner
  std::string sqlstate{};         // with abort_reason: of PostgreSQL's error
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
