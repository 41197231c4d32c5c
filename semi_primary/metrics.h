// What psp-semi-primary shows under /metrics (docs/metrics.md). Pure: numbers in, text out.
#pragma once

#include <cstdint>
#include <string>

#include "common/metrics/daemon_numbers.h"
#include "semi_primary/apply/apply_meter.h"
#include "semi_primary/core/core_numbers.h"

namespace psp::sp {

struct SemiPrimaryNumbers {
  DaemonNumbers daemon{};
  CoreNumbers core{};
  ApplyNumbers apply{};
  std::uint64_t blockers_ended = 0;
};

std::string SemiPrimaryMetrics(const SemiPrimaryNumbers& numbers);

}  // namespace psp::sp
