// Where the commit hook's server listens, and how a backend finds it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/file_descriptor.h"
#include "common/result.h"

namespace psp::sp {

struct ListenAddress {
  std::string directory;  // of the unix socket; empty: TCP on `host`
  std::string host;       // a loopback address
  std::uint16_t port = 0;

  // The socket file, named as libpq looks for it.
  std::string SocketPath() const { return directory + "/.s.PGSQL." + std::to_string(port); }
  // For messages.
  std::string Place() const { return directory.empty() ? host + ":" + std::to_string(port) : SocketPath(); }
  // Where to connect, in libpq's form; the hook adds user, database and password.
  std::string Conninfo() const;
};

// Reads `unix:/dir/.s.PGSQL.PORT` or `127.0.0.1:PORT`. The error says what is wrong.
Result<ListenAddress, std::string> ParseListenAddress(std::string_view text);

// A socket that listens there and never blocks. The file of a server that has ended is replaced. The error says that
// another server listens there, or what else is wrong with the address.
Result<FileDescriptor, std::string> Listen(const ListenAddress& address);

}  // namespace psp::sp
