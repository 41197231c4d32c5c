#include "semi_primary/settings.h"

#include "common/sockets.h"
#include "semi_primary/commit_hook/listen_address.h"

namespace psp {
namespace {

std::string CheckListen(std::string_view value) {
  const auto address = ParseListenAddress(value);
  return address ? "" : address.error();
}

void DeclareTexts(Settings& declared, SemiPrimarySettings* settings) {
  declared.Text({.name = "name",
                 .description = "this semi-primary's name, as it was registered",
                 .required = true,
                 .example = "sp1"},
                &settings->name);
  declared.Text({.name = "database",
                 .description = "libpq conninfo of the local database",
                 .required = true,
                 .example = "host=/var/run/postgresql dbname=app"},
                &settings->database);
  declared.Text({.name = "primary",
                 .description = "where the primary listens",
                 .required = true,
                 .check = CheckEndpoint,
                 .example = "tcp://127.0.0.1:5610"},
                &settings->primary);
  declared.Text(
      {.name = "hook_listen",
       .description =
           "where the commit hook's server listens: unix:/directory/.s.PGSQL.PORT or 127.0.0.1:PORT",
       .required = true,
       .check = CheckListen,
       .example = "127.0.0.1:5640"},
      &settings->hook_listen);
}

void DeclareIntegers(Settings& declared, SemiPrimarySettings* settings) {
  const auto integer = [&](const char* name, const char* description, std::int64_t fallback, std::int64_t min,
                           std::int64_t max, std::int64_t* target) {
    declared.Integer(
        {.name = name, .description = description, .default_value = fallback, .min = min, .max = max},
        target);
  };
  integer("conflict_grace_ms", "how long a local transaction may block remote ones before it is cancelled",
          1000, 0, 3600000, &settings->conflict_grace_ms);
  integer("commit_timeout_ms",
          "how long a COMMIT waits for the primary's decision, plus 1 s for each MB of its write-set", 10000,
          100, 3600000, &settings->commit_timeout_ms);
  integer("disconnected_grace_ms", "how long a new COMMIT waits for a lost primary to come back", 1000, 0,
          3600000, &settings->disconnected_grace_ms);
  integer("apply_batch_transactions_max", "transactions applied together", 256, 1, 100000,
          &settings->apply_batch_transactions_max);
  integer("apply_batch_bytes_max", "bytes applied together", 16 << 20, 1, 1 << 30,
          &settings->apply_batch_bytes_max);
  integer("ack_interval_ms", "time between commits that wait for the disk", 1000, 1, 3600000,
          &settings->ack_interval_ms);
  integer("write_set_bytes_max", "the largest write-set of a transaction", 268435456, 1024, 500000000,
          &settings->write_set_bytes_max);
  integer("waiting_bytes_max", "write-sets that wait for the primary, together", 1 << 30, 1024,
          std::int64_t{1} << 40, &settings->waiting_bytes_max);
  integer("hook_connections_max", "backends connected to the commit hook", 1000, 1, 100000,
          &settings->hook_connections_max);
  integer("heartbeat_timeout_ms", "silence after which the primary counts as lost", 3000, 100, 3600000,
          &settings->heartbeat_timeout_ms);
}

}  // namespace

Settings DeclareSemiPrimarySettings(SemiPrimarySettings* into) {
  Settings declared("psp-semi-primary",
                    "Executes near its clients; certifies at the primary; applies what others commit.");
  DeclareTexts(declared, into);
  DeclareIntegers(declared, into);
  return declared;
}

}  // namespace psp
