// The places of a wide-area network, as the command line names them. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace psp::wan {

using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;

// One place: a network namespace with one address. All ways between two places lead over the hub.
struct Site {
  std::string name;
  std::string network_namespace;
  uint32_t address = 0;      // IPv4, in the network's byte order
  Clock::duration to_hub{};  // half the round trip between the place and the hub; the hub's own: 0
};

// From NAME:NAMESPACE:ADDRESS:ROUND_TRIP_MS; nothing if the text is not that.
std::optional<Site> ParseSite(std::string_view text);

}  // namespace psp::wan
