// What psp-primary shows under /metrics (docs/metrics.md) and /health. Pure: numbers in, text out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "common/metrics/daemon_numbers.h"
#include "primary/core/core_numbers.h"
#include "primary/core/standstill.h"

namespace psp::primary {

struct PrimaryNumbers {
  DaemonNumbers daemon{};
  CoreNumbers core{};
  std::size_t sessions_by_module = 0;  // executors that decide by the server module psp_certify
  std::size_t sessions_by_sql = 0;
  Sight sight{};
  std::int64_t stream_bytes_max = 0;
};

std::string PrimaryMetrics(const PrimaryNumbers& numbers);

// Why nothing can be decided, without PostgreSQL's own words; empty: it can.
std::string PrimaryIllness(const std::optional<Standstill::Reason>& standstill, bool is_stopping);

}  // namespace psp::primary
