// The settings of psp-semi-primary.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/cluster_key.h"
#include "common/commit_choice.h"
#include "common/config.h"

namespace psp::sp {

struct SemiPrimarySettings {
  std::string name;
  std::string database;
  std::string primary;
  std::string key_file;
  std::string metrics_listen;
  std::optional<ClusterKey> key{};  // what is in key_file
  std::string mode;
  bool views_mode = false;  // what mode says
  std::string hook_listen;  // native mode
  // If hook_listen is with TLS:
  std::string hook_certificate_file;
  std::string hook_key_file;
  std::string hook_endpoint;  // where the database's server finds hook_listen
  std::string hook_root_certificate;
  std::string client_listen;    // views mode
  std::string client_endpoint;  // views mode; where clients find client_listen
  std::int64_t conflict_grace_ms = 0;
  std::int64_t trigger_timeout_ms = 0;
  std::int64_t commit_timeout_ms = 0;
  std::int64_t disconnected_grace_ms = 0;
  std::int64_t apply_batch_transactions_max = 0;
  std::int64_t apply_batch_bytes_max = 0;
  std::int64_t apply_pace_ms = 0;
  std::int64_t ack_interval_ms = 0;
  std::int64_t standby_lag_ms = 0;
  std::int64_t write_set_bytes_max = 0;
  std::int64_t waiting_bytes_max = 0;
  std::int64_t hook_connections_max = 0;
  std::int64_t heartbeat_timeout_ms = 0;
  std::int64_t request_retention_h = 0;
  CommitChoice logged{};
  // Views mode:
  bool local_certification = true;
  bool wait_for_apply = true;
  std::int64_t lworkers = 0;
  std::int64_t gc_interval_ms = 0;
  std::int64_t running_timeout_ms = 0;
  std::int64_t forget_after_ms = 0;
};

// The declarations; `into` must outlive the returned object.
Settings DeclareSemiPrimarySettings(SemiPrimarySettings* into);

}  // namespace psp::sp
