// The state of a semi-primary's daemon: a row of psp.daemon_status. Values.
#pragma once

#include <cstdint>
#include <string>

#include "common/ids.h"
#include "semi_primary/front/commit_timing.h"

namespace psp::sp {

struct DaemonStatus {
  std::string state = "disconnected";
  GlobalT watermark = 0;
  GlobalT closed_t = 0;
  std::int64_t lag_ms = 0;
  bool has_caught_up = false;  // since it has connected; a state of `catchup` may also be a long lag
  std::uint64_t commits_total = 0;
  std::uint64_t aborts_total = 0;
  std::uint64_t losses_total = 0;  // of these, against other transactions
  double rtt_ms = 0;
  Epoch epoch = 0;
  std::uint64_t waiting = 0;
  CommitSums recent{};  // of about the last minute: those that the primary has decided
  std::int64_t join_rows_done = 0;
  std::int64_t join_rows_total = 0;
  std::uint64_t generation = 0;  // of the stream
  bool can_commit = false;
  bool lacks_own = true;   // own commits that a crash took may not be back
  std::string last_error;  // empty: none
  std::string reserved;    // keys that others leave to this semi-primary for a while; empty: none
};

}  // namespace psp::sp
