// The settings of psp-semi-primary.
#pragma once

#include <cstdint>
#include <string>

#include "common/config.h"

namespace psp {

struct SemiPrimarySettings {
  std::string name;
  std::string database;
  std::string primary;
  std::string hook_listen;
  std::int64_t conflict_grace_ms = 0;
  std::int64_t commit_timeout_ms = 0;
  std::int64_t disconnected_grace_ms = 0;
  std::int64_t apply_batch_transactions_max = 0;
  std::int64_t apply_batch_bytes_max = 0;
  std::int64_t ack_interval_ms = 0;
  std::int64_t write_set_bytes_max = 0;
  std::int64_t waiting_bytes_max = 0;
  std::int64_t hook_connections_max = 0;
  std::int64_t heartbeat_timeout_ms = 0;
};

// The declarations; `into` must outlive the returned object.
Settings DeclareSemiPrimarySettings(SemiPrimarySettings* into);

}  // namespace psp
