// What psp-mrv answers to GET /metrics and GET /health.
#pragma once

#include <cstdint>
#include <string>

#include "common/metrics/daemon_numbers.h"

namespace psp::mrv {

// `is_serving`: whether this psp-mrv has the database, and has read a window of outcomes there.
std::string MrvMetrics(const DaemonNumbers& daemon, bool is_serving);
// Empty: all is well.
std::string MrvIllness(bool is_serving);

}  // namespace psp::mrv
