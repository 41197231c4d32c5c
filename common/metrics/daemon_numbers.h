// The metrics that daemons have alike. Values, and what reads them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "common/ids.h"
#include "common/metrics/text_format.h"

namespace psp {

struct QueueNumbers {
  const char* name = "";
  std::int64_t filled = 0;
  std::int64_t max = 0;  // 0: its bound is another daemon's
};

struct DaemonNumbers {
  std::string version{};
  std::int64_t running_us = 0;
  std::int64_t resident_bytes = 0;
  std::array<std::uint64_t, 4> postgres_errors{};  // by PgReaction
  std::uint64_t malformed_messages = 0;
  Epoch epoch = 0;
  GlobalT closed_t = 0;
  std::vector<QueueNumbers> queue_bytes{};
  std::vector<QueueNumbers> queue_items{};
};

// Of this process; the rest is the caller's. `since_us`: when it began to serve.
DaemonNumbers ReadDaemonNumbers(std::int64_t since_us, std::int64_t now_us);

// Of any process: build, running time, memory, errors of PostgreSQL.
void AppendProcessMetrics(const DaemonNumbers& numbers, std::vector<MetricFamily>* families);
// These, and those of psp-primary and psp-semi-primary.
void AppendDaemonMetrics(const DaemonNumbers& numbers, std::vector<MetricFamily>* families);

}  // namespace psp
