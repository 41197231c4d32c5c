#include "primary/settings.h"

#include "common/sockets.h"

namespace psp {

Settings DeclarePrimarySettings(PrimarySettings* into) {
  constexpr std::int64_t kMegabyte = 1 << 20;
  Settings settings("psp-primary",
                    "Certifies, makes durable and replicates the transactions of all semi-primaries.");
  settings.Text({.name = "database",
                 .description = "The primary's PostgreSQL database, a libpq connection string.",
                 .required = true,
                 .example = "host=127.0.0.1 port=5432 dbname=psp user=psp"},
                &into->database);
  settings.Text({.name = "listen",
                 .description = "Where semi-primaries connect, a ZeroMQ endpoint.",
                 .required = true,
                 .check = [](std::string_view value) -> std::string {
                   return value.ends_with(":*") ? "" : CheckEndpoint(value);  // *: any free port
                 },
                 .example = "tcp://127.0.0.1:5999"},
                &into->listen);
  settings.Integer({.name = "executors",
                    .description = "PostgreSQL sessions that decide batches side by side.",
                    .default_value = 2,
                    .min = 1,
                    .max = 64},
                   &into->executors);
  settings.Integer({.name = "batch_transactions_max",
                    .description = "Transactions decided together at most.",
                    .default_value = 256,
                    .min = 1,
                    .max = 10000},
                   &into->batch_transactions_max);
  settings.Integer(
      {.name = "batch_bytes_max",
       .description = "Bytes of write-sets decided together at most; a larger transaction goes alone.",
       .default_value = 16 * kMegabyte,
       .min = 1,
       .max = 256 * kMegabyte},
      &into->batch_bytes_max);
  settings.Integer({.name = "write_set_bytes_max",
                    .description = "Largest write-set of one transaction; a larger one is refused.",
                    .default_value = 256 * kMegabyte,
                    .min = 1024,
                    .max = 400 * kMegabyte},
                   &into->write_set_bytes_max);
  settings.Integer(
      {.name = "inflight_bytes_max",
       .description = "Bytes of write-sets that wait for a decision at most; what comes then is aborted.",
       .default_value = 1024 * kMegabyte,
       .min = kMegabyte},
      &into->inflight_bytes_max);
  settings.Integer({.name = "heartbeat_interval_ms",
                    .description = "How often semi-primaries send a heartbeat.",
                    .default_value = 500,
                    .min = 10,
                    .max = 60000},
                   &into->heartbeat_interval_ms);
  settings.Integer({.name = "heartbeat_timeout_ms",
                    .description = "A semi-primary that is silent for so long is taken to be gone.",
                    .default_value = 3000,
                    .min = 50,
                    .max = 600000},
                   &into->heartbeat_timeout_ms);
  settings.Integer(
      {.name = "replicate_bytes_max",
       .description = "Bytes of one replication message, about; a larger transaction goes alone.",
       .default_value = 4 * kMegabyte,
       .min = 1024,
       .max = 256 * kMegabyte},
      &into->replicate_bytes_max);
  settings.Integer(
      {.name = "stream_bytes_max",
       .description = "Bytes under way to one semi-primary that it has not applied; then its stream rests.",
       .default_value = 64 * kMegabyte,
       .min = 4096},
      &into->stream_bytes_max);
  settings.Integer(
      {.name = "recent_bytes_max",
       .description = "Bytes of published transactions kept in memory for streams that fall behind.",
       .default_value = 64 * kMegabyte,
       .min = 0},
      &into->recent_bytes_max);
  settings.Integer(
      {.name = "log_truncation_interval_ms",
       .description = "How often what every semi-primary has acknowledged is removed from the log.",
       .default_value = 10000,
       .min = 100,
       .max = 86400000},
      &into->log_truncation_interval_ms);
  settings.Integer({.name = "tx_log_retention_s",
                    .description = "How long a decision is remembered for repeated requests; what a "
                                   "semi-primary has not applied yet, longer.",
                    .default_value = 86400,
                    .min = 60,
                    .max = 10L * 365 * 86400},
                   &into->tx_log_retention_s);
  return settings;
}

}  // namespace psp
