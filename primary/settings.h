// The primary's settings: declared once, in settings.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/cluster_key.h"
#include "common/commit_choice.h"
#include "common/config.h"

namespace psp::primary {

struct PrimarySettings {
  std::string database;
  std::string listen;
  std::string key_file;
  std::optional<ClusterKey> key{};  // what is in key_file
  std::string certify;
  std::string metrics_listen;
  std::int64_t executors = 0;
  std::int64_t batch_transactions_max = 0;
  std::int64_t batch_bytes_max = 0;
  std::int64_t batch_wait_max_ms = 0;
  std::int64_t write_set_bytes_max = 0;
  std::int64_t inflight_bytes_max = 0;
  std::int64_t hold_timeout_max_ms = 0;
  std::int64_t reservation_max_ms = 0;
  std::int64_t heartbeat_interval_ms = 0;
  std::int64_t heartbeat_timeout_ms = 0;
  std::int64_t away_ms = 0;
  std::int64_t hear_ms = 0;
  std::int64_t replicate_bytes_max = 0;
  std::int64_t stream_bytes_max = 0;
  std::int64_t recent_bytes_max = 0;
  std::int64_t log_truncation_interval_ms = 0;
  std::int64_t tx_log_retention_s = 0;
  std::int64_t deleted_retention_s = 0;
  bool some_standbys = false;
  CommitChoice logged{};
};

// The declarations; `into` must outlive the returned object.
Settings DeclarePrimarySettings(PrimarySettings* into);

}  // namespace psp::primary
