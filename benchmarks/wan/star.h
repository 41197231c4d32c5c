// What is under way in a wide-area network: where each packet goes, and when it arrives. Pure; one thread.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "benchmarks/wan/site.h"

namespace psp::wan {

// A packet that has arrived, as Send() got it, and the number of the place that it is for.
struct Arrival {
  size_t site = 0;
  std::string packet;
};

class Star {
 public:
  // Each IP packet comes after `header_bytes` of the device, which go with the packet.
  // When `bytes_max` are under way, what else is sent is lost.
  Star(std::vector<Site> sites, size_t header_bytes, size_t bytes_max);

  // A packet that the place `from` sends now. It is lost if its address is no place's, or if either end is cut off.
  void Send(size_t from, Time now, std::string_view packet);

  // When the next packet arrives; nothing if none is under way.
  std::optional<Time> NextArrival() const;

  // A packet whose time has come; nothing if there is none. Packets between two places keep their order.
  std::optional<Arrival> Take(Time now);

  // Cuts the place off: what goes from or to it is lost without a word, also what is under way. Or heals it.
  // False: there is no such place.
  bool SetCut(std::string_view name, bool cut);

 private:
  struct Packet {
    size_t from = 0;
    size_t to = 0;
    std::string bytes;
  };

  std::optional<size_t> Destination(std::string_view packet) const;

  const std::vector<Site> sites_;
  const size_t header_bytes_;
  const size_t bytes_max_;
  std::vector<bool> cut_;                  // by the number of the place
  std::multimap<Time, Packet> under_way_;  // packets of one time in the order in which they were sent
  size_t bytes_ = 0;
};

}  // namespace psp::wan
