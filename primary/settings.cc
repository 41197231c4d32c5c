#include "primary/settings.h"

#include "common/declare_commit_choice.h"
#include "common/metrics/http_responder.h"
#include "common/sockets.h"

namespace psp::primary {
namespace {

constexpr std::int64_t kMegabyte = 1 << 20;

void DeclareTexts(Settings& settings, PrimarySettings* into) {
  settings.Text({.name = "database",
                 .description = "the primary's PostgreSQL database, a libpq connection string",
                 .required = true,
                 .example = "host=127.0.0.1 port=5432 dbname=psp user=psp_primary"},
                &into->database);
  settings.Text({.name = "listen",
                 .description = "where semi-primaries connect: tcp://ADDRESS:PORT, or tcp://*:PORT for all "
                                "addresses of the machine",
                 .required = true,
                 .check = [](std::string_view value) -> std::string {
                   return value.ends_with(":*") ? "" : CheckEndpoint(value);  // *: any free port
                 },
                 .example = "tcp://127.0.0.1:5610"},
                &into->listen);
  settings.Text({.name = "key_file",
                 .description = "the cluster's key, made by psp primary key; without one, connections of "
                                "semi-primaries are neither encrypted nor authenticated"},
                &into->key_file);
  settings.Text(
      {.name = "certify",
       .description =
           "how batches of transactions are decided: auto: by the server module psp_certify where the "
           "primary's PostgreSQL has it, otherwise by SQL; sql: by SQL",
       .default_value = "auto",
       .allowed = {"auto", "sql"}},
      &into->certify);
  settings.Text(
      {.name = "metrics_listen",
       .description = "where GET /metrics (Prometheus) and GET /health are answered: ADDRESS:PORT, such as "
                      "127.0.0.1:9610; empty: nowhere. Everybody who reaches it can read them",
       .check = CheckHttpAddress},
      &into->metrics_listen);
  settings.Boolean({.name = "some_standbys",
                    .description = "true: it serves also where synchronous_standby_names lists more standbys "
                                   "than must have a decision; "
                                   "who promotes one must choose one that has everything"},
                   &into->some_standbys);
  settings.Together("key_file", [into](bool) { return LoadClusterKey(into->key_file, &into->key); });
}

void DeclareIntegers(Settings& settings, PrimarySettings* into) {
  settings.Integer("executors", "PostgreSQL sessions that decide batches side by side", 2, 1, 64,
                   &into->executors);
  settings.Integer("batch_transactions_max", "most transactions that are decided together", 256, 1, 10000,
                   &into->batch_transactions_max);
  settings.Integer("batch_bytes_max",
                   "most bytes of write-sets that are decided together; a larger transaction goes alone",
                   16 * kMegabyte, 1, 256 * kMegabyte, &into->batch_bytes_max);
  settings.Integer(
      "batch_wait_max_ms",
      "for how long a transaction waits for others at most, to be decided together with them; it waits "
      "a fifteenth of its semi-primary's round trip, where others are expected; 0: never",
      2, 0, 20, &into->batch_wait_max_ms);
  settings.Integer("write_set_bytes_max", "largest write-set of one transaction; a larger one is refused",
                   256 * kMegabyte, 1024, 400 * kMegabyte, &into->write_set_bytes_max);
  settings.Integer("inflight_bytes_max",
                   "most bytes of write-sets that wait for a decision; beyond it transactions are aborted",
                   1024 * kMegabyte, kMegabyte, INT64_MAX, &into->inflight_bytes_max);
  settings.Integer("hold_timeout_max_ms",
                   "for how long a schema change lets writers of its tables wait at most, even if it asks "
                   "for more; keep it "
                   "below the semi-primaries' commit_timeout_ms",
                   8000, 0, 600000, &into->hold_timeout_max_ms);
  settings.Integer("reservation_max_ms",
                   "for how long the keys of a transaction are reserved at most for a semi-primary that "
                   "loses again and again, "
                   "while others that write them wait; 0: never",
                   1000, 0, 5000, &into->reservation_max_ms);
  settings.Integer("heartbeat_interval_ms", "how often semi-primaries send a heartbeat", 500, 10, 60000,
                   &into->heartbeat_interval_ms);
  settings.Integer("heartbeat_timeout_ms", "silence after which a semi-primary counts as gone", 3000, 50,
                   600000, &into->heartbeat_timeout_ms);
  settings.Integer(
      "away_ms",
      "when this daemon is told to stop, or its server has become a standby: for how long "
      "semi-primaries let COMMITs wait at most, without an error, for its next start or for another "
      "primary; 0: as after a crash",
      0, 0, 600000, &into->away_ms);
  settings.Integer(
      "hear_ms",
      "after its start: for how long this daemon waits at most for semi-primaries that are away, to hear "
      "what they have, before "
      "it decides anything; keep it below the semi-primaries' commit_timeout_ms; 0: it hears nobody",
      2000, 0, 600000, &into->hear_ms);
  settings.Integer("replicate_bytes_max",
                   "approximate size of one replication message; a larger transaction goes alone",
                   4 * kMegabyte, 1024, 256 * kMegabyte, &into->replicate_bytes_max);
  settings.Integer("stream_bytes_max",
                   "most bytes sent to one semi-primary that it has not applied; beyond it its stream pauses",
                   64 * kMegabyte, 4096, INT64_MAX, &into->stream_bytes_max);
  settings.Integer("recent_bytes_max",
                   "bytes of published transactions kept in memory for streams that fall behind",
                   64 * kMegabyte, 0, INT64_MAX, &into->recent_bytes_max);
  settings.Integer("log_truncation_interval_ms",
                   "how often log entries that every semi-primary has acknowledged are removed", 10000, 100,
                   86400000, &into->log_truncation_interval_ms);
  settings.Integer(
      "tx_log_retention_s",
      "how long a decision is remembered, of the time in which psp-primary serves; longer for what a "
      "semi-primary has not applied yet",
      86400, 60, 10L * 365 * 86400, &into->tx_log_retention_s);
  settings.Integer(
      "deleted_retention_s",
      "how long deleted rows and old unique values are remembered, and tx_log_retention_s at most; "
      "a transaction whose snapshot is older gets 40001 if it inserts",
      3600, 0, 10L * 365 * 86400, &into->deleted_retention_s);
}

}  // namespace

Settings DeclarePrimarySettings(PrimarySettings* into) {
  Settings settings("psp-primary",
                    "Certifies, makes durable and replicates the transactions of all semi-primaries.");
  DeclareTexts(settings, into);
  DeclareIntegers(settings, into);
  DeclareCommitChoice(settings, &into->logged);
  return settings;
}

}  // namespace psp::primary
