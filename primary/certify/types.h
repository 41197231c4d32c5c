// What goes into certification and what comes out. Values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/epochs.h"
#include "common/ids.h"
#include "proto/psp.pb.h"

namespace psp {

// One transaction that asks to commit, or (with `refusal`) one that must be recorded as aborted.
struct CertifyRequest {
  TxId tx_id;
  SpId sp_id = 0;
  std::uint64_t incarnation = 0;  // of the SP's daemon that sent it
  GlobalT watermark = 0;
  std::vector<GlobalT> seen;
  std::string write_set;       // serialised, as received
  proto::WriteSet rows;        // the same, parsed
  std::string refusal;         // not empty: abort for this reason, whatever the rows
  bool older_catalog = false;  // the reason is that the cluster's catalog is newer
};

// The key that a transaction lost on, and who had written it.
struct LostKey {
  std::uint32_t table_id = 0;
  std::string key;
  GlobalT winner_t = 0;
  SpId winner_sp_id = 0;

  friend bool operator==(const LostKey&, const LostKey&) = default;
};

// A decision, durable. Committed when global_t > 0; otherwise `lost_key` or `reason` tells why not.
struct Verdict {
  GlobalT global_t = 0;
  std::optional<LostKey> lost_key;
  std::string reason;

  friend bool operator==(const Verdict&, const Verdict&) = default;
};

struct BatchItem {
  std::shared_ptr<const CertifyRequest> request;
  GlobalT global_t = 0;           // 0: it cannot commit
  std::string abort_reason;       // not empty exactly when global_t is 0
  std::optional<RowKey> lost_on;  // look up this key alone, to name the winner
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

}  // namespace psp
