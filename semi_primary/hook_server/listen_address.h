// Where the commit hook's server listens, and how a backend finds it.
//
// Without TLS only this machine may connect: a unix socket, or a loopback address.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/file_descriptor.h"
#include "common/result.h"

namespace psp::sp {

inline constexpr std::string_view kTlsPrefix = "tls://";

struct ListenAddress {
  std::string directory;  // of the unix socket; empty: TCP on `host`
  std::string host;       // an address, a loopback one without TLS
  std::uint16_t port = 0;
  bool tls = false;

  // The socket file, named as libpq looks for it.
  std::string SocketPath() const { return directory + "/.s.PGSQL." + std::to_string(port); }
  // For messages.
  std::string Place() const { return directory.empty() ? host + ":" + std::to_string(port) : SocketPath(); }
  // Where to connect without TLS, in libpq's form; the hook adds user, database and password.
  std::string Conninfo() const;
};

// Reads `unix:/dir/.s.PGSQL.PORT`, `127.0.0.1:PORT` or `tls://ADDRESS:PORT`, with IPv6 addresses in brackets. The
// error says what is wrong.
Result<ListenAddress, std::string> ParseListenAddress(std::string_view text);

// Where a server on another machine finds the daemon.
struct Endpoint {
  std::string host;  // a name or an address
  std::uint16_t port = 0;
};

// Reads `HOST:PORT`. The error says what is wrong, also with an address that nobody can connect to.
Result<Endpoint, std::string> ParseEndpoint(std::string_view text);

// What root_certificate may be instead of a file: the authorities that the server's system knows (libpq 16), or no check.
inline constexpr std::string_view kSystemRoots = "system";
inline constexpr std::string_view kNoRoots = "none";

// How libpq connects with TLS. `root_certificate` is a file on the server, or one of these words. A line that is cut is
// noticed after about half a minute: a COMMIT that waits for its answer sends nothing.
std::string TlsConninfo(const Endpoint& endpoint, std::string_view root_certificate);

// A socket that listens there and never blocks. The file of a server that has ended is replaced. The error says that
// another server listens there, or what else is wrong with the address.
Result<FileDescriptor, std::string> Listen(const ListenAddress& address);

}  // namespace psp::sp
