// What the primary's core tells in numbers, for its metrics. Values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/ids.h"
#include "primary/certify/reservations.h"
#include "primary/core/decision_counts.h"
#include "primary/core/standstill.h"
#include "primary/publish/housework.h"

namespace psp::primary {

struct CoreNumbers {
  struct SemiPrimary {
    std::string name;
    bool is_connected = false;
    std::optional<GlobalT>
        lacks{};              // transactions that it has not acknowledged; nothing: it has not joined yet
    std::int64_t rtt_us = 0;  // 0: not known
    std::size_t stream_bytes = 0;  // sent, and not applied yet
    DecisionCounts::Outcomes outcomes{};
    Reservations::Counters reservations{};
  };

  Epoch epoch = 0;
  GlobalT closed_t = 0;
  std::optional<Standstill::Cause> standstill{};
  std::int64_t standstill_us = 0;
  std::size_t undecided = 0;
  std::size_t undecided_bytes = 0;
  std::size_t recent_bytes = 0;
  bool holds_tables = false;              // for a schema change
  std::size_t parked_by_hold = 0;         // requests
  std::size_t parked_by_reservation = 0;  // requests
  std::size_t reservations = 0;           // in force
  std::optional<LogSize> log{};           // as seen last
  DecisionCounts decisions{};
  std::vector<SemiPrimary> semi_primaries{};
};

}  // namespace psp::primary
