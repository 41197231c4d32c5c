// What the semi-primary's core tells in numbers, for its metrics. Values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "proto/psp.pb.h"
#include "semi_primary/housekeeping/daemon_status.h"
#include "semi_primary/submit/commit_times.h"
#include "semi_primary/submit/submissions.h"

namespace psp::sp {

using LossCounts = std::array<std::uint64_t, proto::LossKind_ARRAYSIZE>;  // by proto::LossKind

struct CoreNumbers {
  DaemonStatus status{};
  Submissions::Counters commits{};
  LossCounts losses{};
  CommitTimes times{};
  std::size_t waiting_bytes = 0;  // of write-sets
  bool holds_tables = false;      // for a schema change of this semi-primary
};

}  // namespace psp::sp
