#include "semi_primary/hook_server/listen_address.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <asio.hpp>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>

namespace psp::sp {
namespace {

constexpr std::string_view kUnixPrefix = "unix:";
constexpr std::string_view kSocketName = "/.s.PGSQL.";

std::optional<std::uint16_t> ParsePort(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size() || port == 0) return std::nullopt;
  return port;
}

std::string Quoted(std::string_view value) {
  std::string quoted = "'";
  for (const char c : value) {
    if (c == '\'' || c == '\\') quoted.push_back('\\');
    quoted.push_back(c);
  }
  return quoted + "'";
}

asio::generic::stream_protocol::endpoint EndpointOf(const ListenAddress& address) {
  if (!address.directory.empty()) return asio::local::stream_protocol::endpoint(address.SocketPath());
  return asio::ip::tcp::endpoint(asio::ip::make_address(address.host), address.port);
}

// A missing file is no error.
Result<Done, std::string> RemoveStaleSocket(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return Done{};
  if (!S_ISSOCK(status.st_mode)) return path + " is there and is no socket";
  asio::io_context io;
  asio::local::stream_protocol::socket probe(io);
  asio::error_code error;
  probe.connect(asio::local::stream_protocol::endpoint(path), error);
  if (error != asio::error::connection_refused) return "another process listens on " + path;
  if (::unlink(path.c_str()) != 0) return "cannot remove the stale " + path + ": " + std::strerror(errno);
  return Done{};
}

bool BindAndListen(int socket, const ListenAddress& address) {
  const auto endpoint = EndpointOf(address);
  const int yes = 1;
  if (address.directory.empty() && ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0)
    return false;
  if (::bind(socket, endpoint.data(), static_cast<socklen_t>(endpoint.size())) != 0) return false;
  // PostgreSQL runs as another user than the daemon: everybody may connect, the password decides.
  if (!address.directory.empty() && ::chmod(address.SocketPath().c_str(), 0777) != 0) return false;
  return ::listen(socket, SOMAXCONN) == 0;
}

}  // namespace

std::string ListenAddress::Conninfo() const {
  return "host=" + Quoted(directory.empty() ? host : directory) + " port=" + std::to_string(port) +
         " sslmode=disable gssencmode=disable";
}

Result<ListenAddress, std::string> ParseListenAddress(std::string_view text) {
  ListenAddress address;
  if (text.starts_with(kUnixPrefix)) {
    text.remove_prefix(kUnixPrefix.size());
    const std::size_t name = text.rfind(kSocketName);
    const auto port =
        name == std::string_view::npos ? std::nullopt : ParsePort(text.substr(name + kSocketName.size()));
    if (!port || !text.starts_with('/')) return std::string("must be unix:/directory/.s.PGSQL.PORT");
    address.directory = text.substr(0, name);
    address.port = *port;
    if (address.SocketPath().size() > 100)
      return std::string("the path is longer than a unix socket's may be");
    return address;
  }
  const std::size_t colon = text.rfind(':');
  const auto port = colon == std::string_view::npos ? std::nullopt : ParsePort(text.substr(colon + 1));
  if (!port) return std::string("must be unix:/directory/.s.PGSQL.PORT or 127.0.0.1:PORT");
  address.host = text.substr(0, colon);
  address.port = *port;
  asio::error_code wrong;
  const auto ip = asio::ip::make_address(address.host, wrong);
  if (wrong || !ip.is_loopback())
    return std::string("must be on the loopback interface, such as 127.0.0.1:PORT");
  return address;
}

Result<FileDescriptor, std::string> Listen(const ListenAddress& address) {
  if (!address.directory.empty()) {
    auto removed = RemoveStaleSocket(address.SocketPath());
    if (!removed) return removed.error();
  }
  const int family = EndpointOf(address).protocol().family();
  FileDescriptor socket(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (socket.is_open() && BindAndListen(socket.get(), address)) return socket;
  return "cannot listen on " + address.Place() + ": " + std::strerror(errno);
}

}  // namespace psp::sp
