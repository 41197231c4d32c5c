#include "semi_primary/hook_server/hook_server.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <asio.hpp>
#include <cerrno>
#include <set>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <utility>

#include "common/log.h"
#include "common/pg_binary.h"
#include "semi_primary/hook_server/protocol.h"

namespace psp::sp {
namespace {

using Socket = asio::generic::stream_protocol::socket;
using Acceptor = asio::basic_socket_acceptor<asio::generic::stream_protocol>;
constexpr std::size_t kReadBytes = std::size_t{256} * 1024;
constexpr std::size_t kLoginsMax = 64;  // connections that have not logged in yet

asio::generic::stream_protocol::endpoint EndpointOf(const ListenAddress& address) {
  if (!address.directory.empty()) return asio::local::stream_protocol::endpoint(address.SocketPath());
  return asio::ip::tcp::endpoint(asio::ip::make_address(address.host), address.port);
}

}  // namespace

// Everything but the public functions runs on the server's thread.
class HookServer::Impl {
 public:
  Impl(Options options, Handlers handlers)
      : options_(std::move(options)),
        handlers_(std::move(handlers)),
        protocol_options_{options_.token, options_.database, options_.write_set_bytes_max},
        acceptor_(io_),
        retry_accept_(io_) {}

  ~Impl() { Stop(); }

  Result<Done, std::string> Start();
  void Stop();
  void Post(std::function<void()> work) { asio::post(io_, std::move(work)); }
  void Reply(HookConnectionId id, const FrontAnswer& reply);
  void StopAccepting() {
    asio::error_code ignored;  // closing what is closed already is fine
    acceptor_.close(ignored);
  }

 private:
  struct Connection {
    Connection(HookConnectionId number, Socket connected, const HookProtocol::Options& options)
        : id(number), socket(std::move(connected)), protocol(options), login_timer(socket.get_executor()) {}
    const HookConnectionId id;
    Socket socket;
    HookProtocol protocol;
    asio::steady_timer login_timer;
    std::string sending;
    bool is_sending = false;
    bool waits_for_reply = false;
  };
  using ConnectionPtr = std::shared_ptr<Connection>;

  void Listen();
  void Accept();
  void Begin(Socket socket);
  void LimitLogins();
  void WaitReadable(const ConnectionPtr& connection);
  void Read(const ConnectionPtr& connection);
  void AfterFeed(const ConnectionPtr& connection);
  void Send(const ConnectionPtr& connection);
  void End(const ConnectionPtr& connection);

  const Options options_;
  const Handlers handlers_;
  const HookProtocol::Options protocol_options_;
  asio::io_context io_;
  Acceptor acceptor_;
  asio::steady_timer retry_accept_;
  std::unordered_map<HookConnectionId, ConnectionPtr> connections_;
  std::set<HookConnectionId> logging_in_;  // oldest first
  HookConnectionId next_id_ = 1;
  std::array<char, kReadBytes> scratch_{};  // one for all: a read never leaves bytes in it
  LogOnce logged_;
  std::thread thread_;
  bool stopping_ = false;
};

void HookServer::Impl::Listen() {
  const auto endpoint = EndpointOf(options_.address);
  acceptor_.open(endpoint.protocol());
  if (options_.address.directory.empty()) acceptor_.set_option(asio::socket_base::reuse_address(true));
  acceptor_.bind(endpoint);
  if (!options_.address.directory.empty()) {
    // PostgreSQL runs as another user than the daemon: everybody may connect, the password decides.
    if (::chmod(options_.address.SocketPath().c_str(), 0777) != 0) {
      throw std::system_error(errno, std::system_category(), "chmod");
    }
  }
  acceptor_.listen();
}

Result<Done, std::string> HookServer::Impl::Start() {
  if (!options_.address.directory.empty()) {
    auto removed = RemoveStaleSocket(options_.address.SocketPath());
    if (!removed) return removed.error();
  }
  try {
    Listen();
  } catch (const std::system_error& problem) {
    return "cannot listen on " + options_.address.Place() + ": " + problem.code().message();
  }
  Accept();
  thread_ = std::thread([this] { io_.run(); });
  return Done{};
}

void HookServer::Impl::Stop() {
  if (!thread_.joinable()) return;
  Post([this] {
    stopping_ = true;
    StopAccepting();
    retry_accept_.cancel();
    auto connections = connections_;
    for (auto& [id, connection] : connections) {
      connection->protocol.Refuse({"57P01", "the psp semi-primary is stopping", "", ""});
      connection->waits_for_reply = false;
      Send(connection);
    }
  });
  thread_.join();
  if (!options_.address.directory.empty()) ::unlink(options_.address.SocketPath().c_str());
}

void HookServer::Impl::Accept() {
  acceptor_.async_accept([this](const asio::error_code& error, Socket socket) {
    if (error == asio::error::operation_aborted || stopping_) return;
    if (!error) {
      Begin(std::move(socket));
      return Accept();
    }
    // Most likely out of descriptors: a connection that ends frees one.
    if (logged_.First("accept"))
      spdlog::error("commit hook: cannot accept a connection: {}", error.message());
    retry_accept_.expires_after(std::chrono::milliseconds(100));
    retry_accept_.async_wait([this](const asio::error_code& cancelled) {
      if (!cancelled) Accept();
    });
  });
}

void HookServer::Impl::Begin(Socket socket) {
  asio::error_code error;
  socket.non_blocking(true, error);
  if (error) return;
  auto connection = std::make_shared<Connection>(next_id_++, std::move(socket), protocol_options_);
  connections_.emplace(connection->id, connection);
  if (connections_.size() - logging_in_.size() > options_.connections_max) {
    if (logged_.First("connections")) {
      spdlog::warn("commit hook: more than hook_connections_max = {} connections", options_.connections_max);
    }
    connection->protocol.Refuse({"53300", "too many connections to the psp commit hook", "",
                                 "Raise hook_connections_max of the semi-primary."});
    return Send(connection);
  }
  logging_in_.insert(connection->id);
  LimitLogins();
  connection->login_timer.expires_after(std::chrono::milliseconds(options_.login_timeout_ms));
  connection->login_timer.async_wait([this, connection](const asio::error_code& cancelled) {
    if (cancelled || connection->protocol.authenticated()) return;
    connection->protocol.Refuse({"08006", "no password within the time allowed", "", ""});
    Send(connection);
  });
  WaitReadable(connection);
}

// Everybody on the machine may connect. Connections without a login keep nobody out: the oldest one is
// closed.
void HookServer::Impl::LimitLogins() {
  if (logging_in_.size() <= kLoginsMax) return;
  const ConnectionPtr oldest = connections_.at(*logging_in_.begin());
  logging_in_.erase(logging_in_.begin());
  oldest->protocol.Refuse(
      {"53300", "too many connections to the psp commit hook have not logged in", "", ""});
  Send(oldest);
}

void HookServer::Impl::WaitReadable(const ConnectionPtr& connection) {
  connection->socket.async_wait(Socket::wait_read, [this, connection](const asio::error_code& error) {
    if (error) return End(connection);
    Read(connection);
  });
}

void HookServer::Impl::Read(const ConnectionPtr& connection) {
  asio::error_code error;
  const std::size_t bytes = connection->socket.read_some(asio::buffer(scratch_), error);
  if (error == asio::error::would_block) return WaitReadable(connection);
  if (error) return End(connection);
  connection->protocol.Feed({scratch_.data(), bytes});
  AfterFeed(connection);
  if (!connection->protocol.closed()) WaitReadable(connection);
}

void HookServer::Impl::AfterFeed(const ConnectionPtr& connection) {
  HookProtocol& protocol = connection->protocol;
  if (protocol.authenticated() && logging_in_.erase(connection->id) > 0) connection->login_timer.cancel();
  if (!protocol.problem().empty() && logged_.First(protocol.problem())) {
    spdlog::warn("commit hook: a client was refused: {} (such errors are logged once)", protocol.problem());
  }
  if (auto request = protocol.TakeRequest()) {
    connection->waits_for_reply = true;
    handlers_.on_request(connection->id, std::move(*request));
  }
  Send(connection);
}

void HookServer::Impl::Send(const ConnectionPtr& connection) {
  if (connection->is_sending) return;
  connection->sending = connection->protocol.TakeOutput();
  if (connection->sending.empty()) {
    if (connection->protocol.closed()) End(connection);
    return;
  }
  connection->is_sending = true;
  asio::async_write(connection->socket, asio::buffer(connection->sending),
                    [this, connection](const asio::error_code& error, std::size_t) {
                      connection->is_sending = false;
                      if (error) return End(connection);
                      Send(connection);
                    });
}

void HookServer::Impl::End(const ConnectionPtr& connection) {
  if (connections_.erase(connection->id) == 0) return;
  logging_in_.erase(connection->id);
  connection->login_timer.cancel();
  asio::error_code ignored;  // the peer may have gone already
  connection->socket.close(ignored);
  if (std::exchange(connection->waits_for_reply, false)) handlers_.on_gone(connection->id);
}

void HookServer::Impl::Reply(HookConnectionId id, const FrontAnswer& reply) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  const ConnectionPtr connection = found->second;
  connection->waits_for_reply = false;
  if (const auto* error = std::get_if<UserError>(&reply)) {
    connection->protocol.ReplyError(*error);
  } else if (const auto* committed = std::get_if<Committed>(&reply)) {
    connection->protocol.ReplyCommitted(committed->global_t);
  } else if (const auto* held = std::get_if<Held>(&reply)) {
    connection->protocol.ReplyHeld(held->granted);
  } else {
    const bool is_in = std::get<Outcome>(reply).committed;
    connection->protocol.ReplyText("outcome", is_in ? "committed" : "aborted");
  }
  AfterFeed(connection);
}

HookServer::HookServer(Options options, Handlers handlers)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(handlers))) {}
HookServer::~HookServer() = default;

Result<Done, std::string> HookServer::Start() { return impl_->Start(); }
void HookServer::Stop() { impl_->Stop(); }

void HookServer::Reply(HookConnectionId connection, FrontAnswer reply) {
  impl_->Post([impl = impl_.get(), connection, reply = std::move(reply)] { impl->Reply(connection, reply); });
}

void HookServer::StopAccepting() {
  impl_->Post([impl = impl_.get()] { impl->StopAccepting(); });
}

}  // namespace psp::sp
