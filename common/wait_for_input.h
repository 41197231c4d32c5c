// Waits for a ZeroMQ socket and for descriptors, with one system call instead of zmq::poll's three or more: a
// daemon's loop wakes several times for each transaction.
#pragma once

#include <poll.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <system_error>
#include <zmq.hpp>

namespace psp {

// At most `timeout_ms`, or until a signal. Returns which of `fds` are readable (-1 never is). The caller must
// look at the socket in any case: its descriptor only says that something has changed since its last use.
// Only the socket's owner may call this. Throws std::system_error when poll fails.
template <std::size_t n>
std::array<bool, n> WaitForInput(zmq::socket_t& socket, const std::array<int, n>& fds, int timeout_ms) {
  std::array<pollfd, n + 1> items{};
  for (std::size_t i = 0; i < n; ++i) items[i] = {fds[i], POLLIN, 0};
  items[n] = {socket.get(zmq::sockopt::fd), POLLIN, 0};
  // What has arrived already does not make the descriptor readable again.
  const bool has_input = (socket.get(zmq::sockopt::events) & ZMQ_POLLIN) != 0;
  const int ready = poll(items.data(), items.size(), has_input ? 0 : timeout_ms);
  if (ready < 0 && errno != EINTR) throw std::system_error(errno, std::system_category(), "poll");
  std::array<bool, n> readable{};
  for (std::size_t i = 0; i < n && ready > 0; ++i) readable[i] = items[i].revents != 0;
  return readable;
}

}  // namespace psp
