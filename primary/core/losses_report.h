// What is told of semi-primaries that lose to one another, and of the keys that are reserved for them: a line in the log,
// and what `psp primary status` shows. Where nobody loses, nothing. Pure; one thread; time (monotonic microseconds) is an argument.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "primary/certify/reservations.h"

namespace psp::primary {

class LossesReport {
 public:
  using Counters = std::map<SpId, Reservations::Counters>;

  // Once a minute at most.
  std::optional<std::string> TakeLine(const Reservations& reservations, std::int64_t now_us);
  // A JSON object: sql/primary/daemon/write_losses.sql. The rates are of the time since the last call.
  std::optional<std::string> TakeStatus(const Reservations& reservations, std::int64_t now_us);

 private:
  Reservations::Counters in_line_;
  std::int64_t next_line_us_ = 0;
  Counters in_status_;
  std::int64_t status_us_ = 0;  // of the last call
};

}  // namespace psp::primary
