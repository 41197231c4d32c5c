#include "benchmarks/wan/carrier.h"

#include <unistd.h>

#include <optional>
#include <system_error>

#include "benchmarks/wan/tun.h"

namespace psp::wan {
namespace {

using std::error_code;

constexpr size_t kBytesUnderWayMax = 256U << 20U;

}  // namespace

Carrier::Carrier(asio::io_context& io, const std::vector<Site>& sites)
    : star_(sites, kDeviceHeaderBytes, kBytesUnderWayMax), timer_(io), buffer_(kPacketBytesMax) {
  for (const Site& site : sites) {
    const FileDescriptor device = OpenDevice(site);
    devices_.emplace_back(io, dup(device.get()));  // which asio closes
    devices_.back().non_blocking(true);
  }
  for (size_t site = 0; site < devices_.size(); ++site) Read(site);
}

std::string Carrier::OnCommand(std::string_view line) {
  const size_t space = line.find(' ');
  const std::string_view verb = line.substr(0, space);
  if (space == std::string_view::npos || (verb != "cut" && verb != "heal"))
    return "neither cut NAME nor heal NAME";
  return star_.SetCut(line.substr(space + 1), verb == "cut") ? "done" : "no such place";
}

void Carrier::Read(size_t site) {
  devices_[site].async_wait(asio::posix::stream_descriptor::wait_read, [this, site](const error_code& error) {
    if (error) return;
    ReadAll(site);
    DeliverDue();
    Read(site);
  });
}

void Carrier::ReadAll(size_t site) {
  while (true) {
    error_code error;
    const size_t bytes = devices_[site].read_some(asio::buffer(buffer_), error);
    if (error) return;
    star_.Send(site, Clock::now(), {buffer_.data(), bytes});
  }
}

void Carrier::DeliverDue() {
  while (std::optional<Arrival> arrival = star_.Take(Clock::now())) {
    error_code lost;  // a packet that the device does not take is lost, as on any line
    devices_[arrival->site].write_some(asio::buffer(arrival->packet), lost);
  }
  WaitForNext();
}

void Carrier::WaitForNext() {
  const std::optional<Time> next = star_.NextArrival();
  if (!next) return;
  timer_.expires_at(*next);
  timer_.async_wait([this](const error_code& error) {
    if (!error) DeliverDue();
  });
}

}  // namespace psp::wan
