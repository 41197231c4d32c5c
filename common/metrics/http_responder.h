// Answers a few HTTP requests on its owner's poll loop, one for each connection. Never waits.
//
// Everything is bounded: the connections, the bytes of a request, and the time of a connection. When there is no room for a new connection, the
// oldest one gives way that is not being answered: one that asks nothing keeps out nobody.
// No thread, no TLS, no passwords: it belongs on a loopback address or a private network.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "common/file_descriptor.h"
#include "common/metrics/http_message.h"
#include "common/poll_set.h"
#include "common/result.h"

namespace psp {

// What is wrong with the configured ADDRESS:PORT, an IPv6 address in brackets; empty: nothing.
std::string CheckHttpAddress(std::string_view text);

// One owner.
class HttpResponder {
 public:
  struct Limits {
    std::size_t connections_max = 16;
    std::size_t request_bytes_max = 8192;
    std::int64_t connection_us_max = 5'000'000;
  };
  // Called for each request that is not refused before.
  using Answer = std::function<HttpAnswer(const HttpRequest&)>;

  // Listens there. The error says what is wrong, such as an address that is in use.
  static Result<std::unique_ptr<HttpResponder>, std::string> Listen(std::string_view address,
                                                                    const Limits& limits);

  // Readable when Serve has something to do.
  int fd() const { return ready_.fd(); }
  // Accepts, reads, answers and sends what is possible now. To be called when fd() is readable, and several times a second.
  void Serve(std::int64_t now_us, const Answer& answer);

  std::size_t connections() const { return connections_.size(); }
  std::uint16_t port() const;  // the real one when it listens on port 0

 private:
  struct Connection {
    FileDescriptor socket;
    std::int64_t until_us = 0;
    std::string request{};
    std::string unsent{};
    bool is_answered = false;  // what comes now is not looked at
  };
  using Connections = std::map<std::uint64_t, Connection>;

  HttpResponder(FileDescriptor listener, const Limits& limits);
  void Accept(std::int64_t now_us);
  // The oldest one to which nothing is being sent, if none more has room.
  Connections::iterator OneThatGivesWay();
  void SetAccepting(bool accepting);
  // These return whether the connection goes on.
  bool OnReady(std::uint64_t id, Connection* connection, const Answer& answer);
  bool Read(Connection* connection, const Answer& answer);
  bool Send(std::uint64_t id, Connection* connection);

  const Limits limits_;
  PollSet ready_;
  FileDescriptor listener_;
  bool accepting_ = true;
  std::int64_t accept_again_us_ = 0;
  std::uint64_t last_id_ = 0;
  Connections connections_;
};

}  // namespace psp
