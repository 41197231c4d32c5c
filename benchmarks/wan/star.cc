#include "benchmarks/wan/star.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

namespace psp::wan {
namespace {

// Of an IPv4 header (RFC 791).
constexpr size_t kHeaderBytesMin = 20;
constexpr size_t kDestinationOffset = 16;
constexpr unsigned kVersion = 4;

}  // namespace

Star::Star(std::vector<Site> sites, size_t header_bytes, size_t bytes_max)
    : sites_(std::move(sites)), header_bytes_(header_bytes), bytes_max_(bytes_max), cut_(sites_.size()) {}

void Star::Send(size_t from, Time now, std::string_view packet) {
  const std::optional<size_t> to = Destination(packet);
  if (!to || cut_[from] || cut_[*to] || bytes_ + packet.size() > bytes_max_) return;
  bytes_ += packet.size();
  under_way_.emplace(now + sites_[from].to_hub + sites_[*to].to_hub, Packet{from, *to, std::string(packet)});
}

std::optional<Time> Star::NextArrival() const {
  if (under_way_.empty()) return std::nullopt;
  return under_way_.begin()->first;
}

std::optional<Arrival> Star::Take(Time now) {
  const auto next = under_way_.begin();
  if (next == under_way_.end() || next->first > now) return std::nullopt;
  Arrival arrival{next->second.to, std::move(next->second.bytes)};
  bytes_ -= arrival.packet.size();
  under_way_.erase(next);
  return arrival;
}

bool Star::SetCut(std::string_view name, bool cut) {
  const auto found = std::ranges::find(sites_, name, &Site::name);
  if (found == sites_.end()) return false;
  const auto site = static_cast<size_t>(found - sites_.begin());
  cut_[site] = cut;
  if (!cut) return true;
  std::erase_if(under_way_, [this, site](const auto& entry) {
    const Packet& packet = entry.second;
    const bool lost = packet.from == site || packet.to == site;
    if (lost) bytes_ -= packet.bytes.size();
    return lost;
  });
  return true;
}

std::optional<size_t> Star::Destination(std::string_view packet) const {
  if (packet.size() < header_bytes_ + kHeaderBytesMin) return std::nullopt;
  const std::string_view ip = packet.substr(header_bytes_);
  if (static_cast<unsigned char>(ip[0]) >> 4U != kVersion) return std::nullopt;
  uint32_t address = 0;
  std::memcpy(&address, ip.data() + kDestinationOffset, sizeof address);
  const auto found = std::ranges::find(sites_, address, &Site::address);
  if (found == sites_.end()) return std::nullopt;
  return static_cast<size_t>(found - sites_.begin());
}

}  // namespace psp::wan
