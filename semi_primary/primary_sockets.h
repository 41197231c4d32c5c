// A connection to each address at which the primary may be. One of them is used; the others are asked now and then who is there, and
// looked at for answers at each turn of the loop. One thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>
#include <zmq.hpp>

#include "common/sockets.h"
#include "proto/psp.pb.h"

namespace psp::sp {

// tcp://HOST:PORT, or several with commas. What is wrong with them; empty: nothing.
std::string CheckEndpoints(std::string_view text);
std::vector<std::string> SplitEndpoints(std::string_view text);

class PrimarySockets {
 public:
  // Throws zmq::error_t, as DealerSocket does.
  PrimarySockets(zmq::context_t& context, const std::vector<std::string>& endpoints,
                 const SocketOptions& options);

  // See WaitForInput. It waits for the one that is used.
  template <std::size_t n>
  std::array<bool, n> Wait(const std::array<int, n>& fds, int timeout_ms) {
    return sockets_[used_].Wait(fds, timeout_ms);
  }
  // The next message and the address, as a place in the list, that it comes from. False: there is none.
  bool Receive(proto::ToSemiPrimary* message, std::size_t* address);

  // What is queued at the one that was used, in both directions, is dropped.
  void Use(std::size_t address);
  void Send(const proto::ToPrimary& message) { sockets_[used_].Send(message); }
  void SendToAll(const proto::ToPrimary& message);
  // The one that is used.
  void Reconnect() { sockets_[used_].Reconnect(); }
  void LingerOnClose(std::int64_t linger_ms) { sockets_[used_].LingerOnClose(linger_ms); }

  std::uint64_t malformed_total() const;

 private:
  std::deque<DealerSocket> sockets_;
  std::size_t used_ = 0;
};

}  // namespace psp::sp
