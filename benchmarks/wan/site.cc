#include "benchmarks/wan/site.h"

#include <arpa/inet.h>

#include <vector>

#include "common/parse_number.h"

namespace psp::wan {
namespace {

constexpr double kRoundTripMsMax = 60000;

std::vector<std::string> SplitAtColons(std::string_view text) {
  std::vector<std::string> parts;
  while (true) {
    const size_t colon = text.find(':');
    parts.emplace_back(text.substr(0, colon));
    if (colon == std::string_view::npos) return parts;
    text.remove_prefix(colon + 1);
  }
}

}  // namespace

std::optional<Site> ParseSite(std::string_view text) {
  const std::vector<std::string> parts = SplitAtColons(text);
  if (parts.size() != 4 || parts[0].empty() || parts[1].empty()) return std::nullopt;
  in_addr address{};
  if (inet_pton(AF_INET, parts[2].c_str(), &address) != 1) return std::nullopt;
  const auto round_trip_ms = ParseNumber<double>(parts[3]);
  if (!round_trip_ms || !(*round_trip_ms <= kRoundTripMsMax)) return std::nullopt;
  const std::chrono::duration<double, std::milli> one_way(*round_trip_ms / 2);
  return Site{parts[0], parts[1], address.s_addr, std::chrono::duration_cast<Clock::duration>(one_way)};
}

}  // namespace psp::wan
