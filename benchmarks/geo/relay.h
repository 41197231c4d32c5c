#pragma once

#include <asio.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "benchmarks/geo/segment_queue.h"

namespace psp::geo {

struct RelayOptions {
  std::string listen_host;
  std::string listen_port;  // "0": any free one, see Relay::port()
  std::string target_host;
  std::string target_port;
  Clock::duration one_way{};
  int64_t bytes_per_s = 0;                  // each direction, shared by all connections; 0: no limit
  size_t in_flight_bytes_max = 16U << 20U;  // each direction of each connection; when full, reading stops
};

// A TCP relay that makes loopback behave like a wide-area link: what it reads it passes on `one_way` later,
// in order, with any number of segments under way. The end of a stream and resets travel like data. A target
// that is not there closes the client's connection; the relay itself goes on.
//
// Everything runs in the thread that runs `io`, which must outlive the relay. The constructor throws
// std::system_error when it cannot listen.
class Relay {
 public:
  Relay(asio::io_context& io, const RelayOptions& options);

  uint16_t port() const { return acceptor_.local_endpoint().port(); }

 private:
  void Accept();

  const RelayOptions options_;
  asio::ip::tcp::acceptor acceptor_;
  asio::steady_timer accept_again_;  // out of file descriptors: not at once
  Link to_target_;
  Link to_client_;
  std::vector<char> scratch_;  // what one read brings, before it is queued; one thread, so one for all
};

}  // namespace psp::geo
