#include "common/metrics/http_responder.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/types.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "common/parse_number.h"

namespace psp {
namespace {

constexpr std::uint64_t kListener = 0;  // connections are numbered from 1 on
constexpr std::int64_t kPauseUs = 100'000;
constexpr std::size_t kReadBytes = 4096;

struct Address {
  sockaddr_storage bytes{};
  socklen_t size = 0;

  const sockaddr* get() const {
    return reinterpret_cast<const sockaddr*>(&bytes);  // NOLINT(cppcoreguidelines-pro-type-reinterpret-cast)
  }
  sockaddr* get() {
    return reinterpret_cast<sockaddr*>(&bytes);  // NOLINT(cppcoreguidelines-pro-type-reinterpret-cast)
  }
};

template <class Kind>
Address Filled(const Kind& kind) {
  Address address;
  std::memcpy(&address.bytes, &kind, sizeof kind);
  address.size = sizeof kind;
  return address;
}

std::optional<Address> ParseAddress(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto port = ParseNumber<std::uint16_t>(text.substr(colon + 1));
  std::string host(text.substr(0, colon));
  if (!port) return std::nullopt;
  if (host.starts_with('[') && host.ends_with(']')) {
    sockaddr_in6 six{};
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(*port);
    host = host.substr(1, host.size() - 2);
    if (inet_pton(AF_INET6, host.c_str(), &six.sin6_addr) != 1) return std::nullopt;
    return Filled(six);
  }
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_port = htons(*port);
  if (inet_pton(AF_INET, host.c_str(), &four.sin_addr) != 1) return std::nullopt;
  return Filled(four);
}

}  // namespace

std::string CheckHttpAddress(std::string_view text) {
  if (text.empty()) return "";
  const std::size_t colon = text.rfind(':');
  const bool has_port = colon != std::string_view::npos && text.substr(colon + 1) != "0";
  if (has_port && ParseAddress(text)) return "";
  return "'" + std::string(text) + "' is not ADDRESS:PORT, such as 127.0.0.1:9610 or [::1]:9610";
}

Result<std::unique_ptr<HttpResponder>, std::string> HttpResponder::Listen(std::string_view text,
                                                                          const Limits& limits) {
  const auto address = ParseAddress(text);
  if (!address) return "'" + std::string(text) + "' is not ADDRESS:PORT";
  FileDescriptor listener(socket(address->bytes.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int yes = 1;
  const bool listens = listener.is_open() &&
                       setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
                       bind(listener.get(), address->get(), address->size) == 0 &&
                       listen(listener.get(), static_cast<int>(limits.connections_max)) == 0;
  if (!listens) return "cannot listen on " + std::string(text) + ": " + std::strerror(errno);
  return std::unique_ptr<HttpResponder>(new HttpResponder(std::move(listener), limits));
}

HttpResponder::HttpResponder(FileDescriptor listener, const Limits& limits)
    : limits_(limits), listener_(std::move(listener)) {
  ready_.Add(listener_.get(), kListener, PollSet::For::kRead);
}

std::uint16_t HttpResponder::port() const {
  Address address;
  address.size = sizeof address.bytes;
  getsockname(listener_.get(), address.get(), &address.size);
  sockaddr_in four{};
  std::memcpy(&four, &address.bytes, sizeof four);  // the port has the same place for IPv6
  return ntohs(four.sin_port);
}

void HttpResponder::Serve(std::int64_t now_us, const Answer& answer) {
  bool has_new = false;
  for (const std::uint64_t id : ready_.TakeReady()) {
    has_new = has_new || id == kListener;
    const auto found = connections_.find(id);
    if (found != connections_.end() && !OnReady(id, &found->second, answer)) connections_.erase(found);
  }
  std::erase_if(connections_, [now_us](const auto& one) { return now_us >= one.second.until_us; });
  if (has_new) Accept(now_us);  // last: what has asked by now does not give way
  const bool has_room =
      connections_.size() < limits_.connections_max || OneThatGivesWay() != connections_.end();
  SetAccepting(has_room && now_us >= accept_again_us_);
}

void HttpResponder::SetAccepting(bool accepting) {
  if (accepting == accepting_) return;
  accepting_ = accepting;
  ready_.Change(listener_.get(), kListener, accepting ? PollSet::For::kRead : PollSet::For::kNothing);
}

HttpResponder::Connections::iterator HttpResponder::OneThatGivesWay() {
  return std::ranges::find_if(connections_, [](const auto& one) { return one.second.unsent.empty(); });
}

// Half of the room at most, so that new ones can ask before they are the oldest.
void HttpResponder::Accept(std::int64_t now_us) {
  for (std::size_t n = 0; n < limits_.connections_max / 2; ++n) {
    const bool is_full = connections_.size() >= limits_.connections_max;
    const auto gives_way = is_full ? OneThatGivesWay() : connections_.end();
    if (is_full && gives_way == connections_.end()) return;
    FileDescriptor socket(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.is_open()) {
      // Without descriptors the listener stays readable, and the loop would turn without end.
      if (errno != EAGAIN && errno != ECONNABORTED && errno != EINTR) accept_again_us_ = now_us + kPauseUs;
      return;
    }
    if (is_full) connections_.erase(gives_way);
    const std::uint64_t id = ++last_id_;
    ready_.Add(socket.get(), id, PollSet::For::kRead);
    connections_.emplace(id, Connection{std::move(socket), now_us + limits_.connection_us_max});
  }
}

bool HttpResponder::OnReady(std::uint64_t id, Connection* connection, const Answer& answer) {
  if (!connection->unsent.empty()) return Send(id, connection);
  if (!Read(connection, answer)) return false;
  return connection->unsent.empty() || Send(id, connection);
}

// After the answer until the other end closes, too: else what it has sent and nobody has read would make the kernel throw the answer away.
bool HttpResponder::Read(Connection* connection, const Answer& answer) {
  std::array<char, kReadBytes> bytes{};
  const ssize_t read = recv(connection->socket.get(), bytes.data(), bytes.size(), 0);
  if (read < 0) return errno == EAGAIN || errno == EINTR;
  if (read == 0) return false;
  if (connection->is_answered) return true;
  connection->request.append(bytes.data(), static_cast<std::size_t>(read));
  const auto asked = ReadHttpRequest(connection->request, limits_.request_bytes_max);
  if (std::holds_alternative<MoreIsNeeded>(asked)) return true;
  const auto* request = std::get_if<HttpRequest>(&asked);
  connection->unsent = HttpBytes(request != nullptr ? answer(*request) : std::get<HttpAnswer>(asked));
  connection->is_answered = true;
  connection->request.clear();
  return true;
}

bool HttpResponder::Send(std::uint64_t id, Connection* connection) {
  const ssize_t sent =
      send(connection->socket.get(), connection->unsent.data(), connection->unsent.size(), MSG_NOSIGNAL);
  if (sent < 0 && errno != EAGAIN && errno != EINTR) return false;
  if (sent > 0) connection->unsent.erase(0, static_cast<std::size_t>(sent));
  const bool is_sent = connection->unsent.empty();
  if (is_sent) shutdown(connection->socket.get(), SHUT_WR);
  ready_.Change(connection->socket.get(), id, is_sent ? PollSet::For::kRead : PollSet::For::kWrite);
  return true;
}

}  // namespace psp
