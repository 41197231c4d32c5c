// The settings of psp-mrv.
#pragma once

#include <cstdint>
#include <string>

#include "common/config.h"

namespace psp::mrv {

struct MrvSettings {
  std::string database;
  std::string metrics_listen;
  std::int64_t adjust_runners = 0;
  std::int64_t balance_runners = 0;
  std::int64_t window_ms = 0;
  std::int64_t lock_sample_interval_ms = 0;
  std::int64_t aborts_min = 0;
  std::int64_t balance_interval_ms = 0;
  std::int64_t balance_tolerance_percent = 0;
  std::int64_t split_refresh_ms = 0;
  std::int64_t add_lock_timeout_ms = 0;
  std::int64_t lock_timeout_ms = 0;
};

// The declarations; `into` must outlive the returned object.
Settings DeclareMrvSettings(MrvSettings* into);

}  // namespace psp::mrv
