#include "mrv/settings.h"

#include "common/metrics/http_responder.h"
#include "mrv/adjust.h"

namespace psp::mrv {

Settings DeclareMrvSettings(MrvSettings* into) {
  Settings declared("psp-mrv", "Adjusts and balances the records of Multi-Record Values.");
  declared.Text({.name = "database",
                 .description = "the PostgreSQL database, a libpq connection string",
                 .required = true,
                 .example = "host=/var/run/postgresql dbname=app"},
                &into->database);
  declared.Text(
      {.name = "metrics_listen",
       .description = "where GET /metrics (Prometheus) and GET /health are answered: ADDRESS:PORT, such as "
                      "127.0.0.1:9612; empty: nowhere. Everybody who reaches it can read them",
       .check = CheckHttpAddress},
      &into->metrics_listen);
  constexpr std::int64_t kHourMs = 3600000;
  declared.Integer("adjust_runners", "sessions that change the number of records; 0: none", 2, 0, 64,
                   &into->adjust_runners);
  declared.Integer("balance_runners", "sessions that even out the amounts of records; 0: none", 1, 0, 64,
                   &into->balance_runners);
  declared.Integer("window_ms", "how long outcomes are collected before adjust acts on them", 1000, 10,
                   kHourMs, &into->window_ms);
  declared.Integer("lock_sample_interval_ms",
                   "how often psp-mrv looks which sessions wait for locks; 0: never", 100, 0, kHourMs,
                   &into->lock_sample_interval_ms);
  declared.Integer("aborts_min", "fewer aborts in a window than this do not add records", kDefaultAbortsMin,
                   0, 1000000, &into->aborts_min);
  declared.Integer("balance_interval_ms", "pause between two rounds of balance", 250, 0, kHourMs,
                   &into->balance_interval_ms);
  declared.Integer("balance_tolerance_percent",
                   "tolerated difference between the largest and the smallest record, in percent of the mean",
                   50, 0, 10000, &into->balance_tolerance_percent);
  declared.Integer("split_refresh_ms", "how often the list of split values is read again", 5000, 0, kHourMs,
                   &into->split_refresh_ms);
  declared.Integer("add_lock_timeout_ms",
                   "how long adjust waits in the queue for a hot value to give it more records", 5000, 1,
                   25000, &into->add_lock_timeout_ms);
  declared.Integer("lock_timeout_ms",
                   "how long a worker waits for any other lock before it gives up this time", 50, 1, 60000,
                   &into->lock_timeout_ms);
  return declared;
}

}  // namespace psp::mrv
