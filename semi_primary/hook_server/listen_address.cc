#include "semi_primary/hook_server/listen_address.h"

#include <netinet/in.h>
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
// Else libpq takes what it finds in the home folder of the server's system user: a certificate of its own for this
// connection, with which it may fail, roots for another purpose, and a list of what they have revoked.
constexpr std::string_view kNoFile = "/dev/null/none";
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

// `HOST:PORT`, without the brackets of an IPv6 address.
std::optional<Endpoint> SplitHostAndPort(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  const auto port = colon == std::string_view::npos ? std::nullopt : ParsePort(text.substr(colon + 1));
  if (!port) return std::nullopt;
  std::string_view host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host.empty()) return std::nullopt;
  return Endpoint{std::string(host), *port};
}

Result<ListenAddress, std::string> ParseUnixAddress(std::string_view path) {
  const std::size_t name = path.rfind(kSocketName);
  const auto port =
      name == std::string_view::npos ? std::nullopt : ParsePort(path.substr(name + kSocketName.size()));
  if (!port || !path.starts_with('/')) return std::string("must be unix:/directory/.s.PGSQL.PORT");
  ListenAddress address;
  address.directory = path.substr(0, name);
  address.port = *port;
  if (address.SocketPath().size() > 100) return std::string("the path is longer than a unix socket's may be");
  return address;
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
  const int no = 0;  // [::] takes IPv4, too
  if (endpoint.protocol().family() == AF_INET6 &&
      ::setsockopt(socket, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no) != 0)
    return false;
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
  if (text.starts_with(kUnixPrefix)) return ParseUnixAddress(text.substr(kUnixPrefix.size()));
  ListenAddress address;
  address.tls = text.starts_with(kTlsPrefix);
  if (address.tls) text.remove_prefix(kTlsPrefix.size());
  const auto place = SplitHostAndPort(text);
  if (!place)
    return std::string("must be unix:/directory/.s.PGSQL.PORT, 127.0.0.1:PORT or tls://ADDRESS:PORT");
  address.host = place->host;
  address.port = place->port;
  asio::error_code wrong;
  const auto ip = asio::ip::make_address(address.host, wrong);
  if (address.tls && wrong)
    return "'" + address.host +
           "' is no address, such as 0.0.0.0; the name under which the database's server finds this host "
           "belongs "
           "to hook_endpoint";
  if (!address.tls && (wrong || !ip.is_loopback()))
    return std::string(
        "must be on the loopback interface, such as 127.0.0.1:PORT; for a database on another host "
        "tls://ADDRESS:PORT");
  return address;
}

Result<Endpoint, std::string> ParseEndpoint(std::string_view text) {
  auto place = SplitHostAndPort(text);
  if (!place || place->host.find_first_of(" \t\n,/") != std::string::npos)
    return std::string("must be HOST:PORT, with an IPv6 address in brackets");
  asio::error_code is_name;
  const auto ip = asio::ip::make_address(place->host, is_name);
  if (!is_name && ip.is_unspecified())
    return "nobody can connect to " + place->host + ": it needs the name or address of this host";
  return *place;
}

std::string TlsConninfo(const Endpoint& endpoint, std::string_view root_certificate) {
  const std::string trust = root_certificate == kNoRoots
                                ? "sslmode=require sslrootcert=" + std::string(kNoFile)
                                : "sslmode=verify-full sslrootcert=" + Quoted(root_certificate);
  return "host=" + Quoted(endpoint.host) + " port=" + std::to_string(endpoint.port) + " " + trust +
         " sslcert=" + std::string(kNoFile) + " sslcrl=" + std::string(kNoFile) +
         " gssencmode=disable keepalives_idle=10 keepalives_interval=5 keepalives_count=3 "
         "tcp_user_timeout=25000";
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
