#include "mrv/settings.h"

#include "mrv/adjust.h"

namespace psp::mrv {

Settings DeclareMrvSettings(MrvSettings* into) {
  Settings declared("psp-mrv", "Adjusts and balances the records of Multi-Record Values.");
  declared.Text({.name = "database",
                 .description = "libpq conninfo of the database",
                 .required = true,
                 .example = "host=/var/run/postgresql dbname=app"},
                &into->database);
  const auto integer = [&](const char* name, const char* description, std::int64_t fallback, std::int64_t min,
                           std::int64_t max, std::int64_t* target) {
    declared.Integer(
        {.name = name, .description = description, .default_value = fallback, .min = min, .max = max},
        target);
  };
  constexpr std::int64_t kHourMs = 3600000;
  integer("adjust_runners", "sessions that change the number of records; 0: none", 2, 0, 64,
          &into->adjust_runners);
  integer("balance_runners", "sessions that even out the amounts of records; 0: none", 1, 0, 64,
          &into->balance_runners);
  integer("window_ms", "outcomes are gathered for so long before adjust acts on them", 1000, 10, kHourMs,
          &into->window_ms);
  integer("lock_sample_interval_ms", "how often is looked who waits for locks; 0: never", 100, 0, kHourMs,
          &into->lock_sample_interval_ms);
  integer("aborts_min", "fewer aborts in a window do not add records", kDefaultAbortsMin, 0, 1000000,
          &into->aborts_min);
  integer("balance_interval_ms", "pause between two rounds of balance", 250, 0, kHourMs,
          &into->balance_interval_ms);
  integer("balance_tolerance_percent",
          "difference of the largest and the smallest record that is left as it is, of their mean", 50, 0,
          10000, &into->balance_tolerance_percent);
  integer("split_refresh_ms", "how often the values that stand in records are looked up anew", 5000, 0,
          kHourMs, &into->split_refresh_ms);
  integer("add_lock_timeout_ms", "how long adjust waits in the queue of a hot value to give it more records",
          5000, 1, 25000, &into->add_lock_timeout_ms);
  integer("lock_timeout_ms", "how long a worker waits for any other lock before it gives up for this time",
          50, 1, 60000, &into->lock_timeout_ms);
  return declared;
}

}  // namespace psp::mrv
