// What goes into the apply worker and what it tells. Values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "common/epochs.h"
#include "common/ids.h"
#include "proto/psp.pb.h"
#include "writeset/catalog.h"

namespace psp::sp {

struct ApplyTransaction {
  GlobalT global_t = 0;
  TxId tx_id;
  bool own = false;
  std::shared_ptr<const proto::WriteSet> write_set;  // null: an own marker whose rows are not known here
};

// One step of the stream, (previous step's closed_t, closed_t], or a part of the copy for a joining
// semi-primary.
struct ApplyStep {
  std::uint64_t generation = 0;  // the worker drops steps of a stream that has begun again since
  GlobalT closed_t = 0;          // for a part of the copy: as of when it is
  std::vector<ApplyTransaction> transactions;
  std::size_t bytes = 0;
  std::shared_ptr<const proto::WriteSet> copied_rows;  // a part of the copy
  bool copy_begins = false;                            // what an older copy has left is to be cleared away
  bool copy_is_complete = false;
  GlobalT complete_t = 0;  // with copy_is_complete: it is joined when W has come here
  std::int64_t rows_done = 0;
  std::uint64_t copy_number = 0;  // of the copy that it is a part of, from 1 on
};

// The worker tells:
struct ApplyStarted {  // the stream must begin again from here
  std::uint64_t generation = 0;
  GlobalT watermark = 0;
  bool joining = false;
  TableCatalogPtr catalog;
  Commits own{};  // that are in, above the watermark
};
struct ApplyProgress {
  std::uint64_t generation = 0;
  GlobalT watermark = 0;
  GlobalT durable = -1;          // <= watermark; on the disk; -1: not known yet, or nothing while joining
  std::int64_t copied_rows = 0;  // while joining
  bool joining = false;
  std::uint64_t copy_number = 0;  // of the copy that the watermark belongs to; 0: of none
};
struct ApplyCatalog {
  TableCatalogPtr catalog;
};
struct ApplyTrouble {   // it is tried again and again
  std::string message;  // empty: over
  bool stops = false;   // until somebody has removed the cause
};
struct ApplyFailed {  // for good: nothing may be done in this database any more, and the daemon ends
  std::string message;
  bool begins_again = false;  // its next start finds what it needs
};
// By the daemon's own session, since the worker may be waiting for a transaction that waits for the primary.
struct EpochsSaved {
  EpochStarts epochs;  // on the disk now
};
// By the watch's session (hold/hold_watch.h).
struct HoldingTransactionEnded {
  std::uint64_t transaction = 0;
};
using ApplyEvent = std::variant<ApplyStarted, ApplyProgress, ApplyCatalog, ApplyTrouble, ApplyFailed,
                                EpochsSaved, HoldingTransactionEnded>;

}  // namespace psp::sp
