// What the clients did and what they were told, to be compared with what is there in the end.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "common/ids.h"
#include "semi_primary/submit/local_certification.h"

namespace psp::simulation {

enum class Report { kNothing, kCommitted, kAborted, kUnknown };

// Transactions with their numbers; mostly what restored databases of the primary had committed after their
// backup.
using Lost = std::set<std::pair<TxId, GlobalT>>;

// A transaction whose COMMIT was sent to a daemon.
struct TxRecord {
  SpId sp_id = 0;
  sp::Snapshot snapshot;
  sp::WriteSetPtr write_set;
  std::vector<RowKey> increments;  // counters, once for each time
  Report report = Report::kNothing;
  GlobalT reported_t = 0;
  std::optional<bool> outcome;    // psp.outcome: committed or not
  std::int64_t asked_at_us = -1;  // psp.outcome: when last
  Lost lacks_own{};               // reported at this SP before the snapshot was taken, and not in it
  bool is_bad = false;            // must be refused (bad_input.h)
  std::int64_t xid = 0;           // ascending at each SP
};

using History = std::map<TxId, TxRecord>;

}  // namespace psp::simulation
