// What goes over a connection's socket: the protocol's bytes as they are, or in TLS once it has begun. It has no
// socket and never waits: bytes in, bytes out, in both ways.
#pragma once

#include <string>
#include <string_view>

#include "semi_primary/hook_server/tls_certificate.h"

namespace psp::sp {

class ByteStream {
 public:
  // Both ways are TLS from now on; what was written before is still sent as it was.
  void BeginTls(SslPtr session);

  // What arrived on the socket, as the protocol reads it; `room` may be what it stands in. Afterwards look at
  // TakeOutput, ended and problem.
  std::string_view Receive(std::string_view bytes, std::string* room);
  // Sends. A client that has not ended its handshake cannot be told anything.
  void Write(std::string_view bytes);
  // The last bytes: the client knows then that nothing was cut off.
  void SayGoodbye();

  // What must be sent on the socket, once.
  std::string TakeOutput();

  // The client has ended TLS, or failed at it. Nothing more can be received.
  bool ended() const { return ended_; }
  // Why TLS failed; empty: it has not. For the log.
  const std::string& problem() const { return problem_; }

 private:
  void Decrypt(std::string* room);
  void TakeEncrypted();
  void OnFailure(int result);

  SslPtr tls_;  // null: plain
  std::string output_;
  std::string problem_;
  bool ended_ = false;
};

}  // namespace psp::sp
