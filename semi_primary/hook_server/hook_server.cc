#include "semi_primary/hook_server/hook_server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <limits>
#include <utility>

namespace psp::sp {
namespace {

constexpr std::size_t kReadBytes = std::size_t{256} * 1024;
constexpr int kAcceptsAtOnce = 64;
constexpr std::size_t kLoginsMaxAtLeast = 64;
constexpr std::int64_t kAcceptPauseUs = 100'000;
constexpr std::int64_t kRenewEveryUs = 10'000'000;

// What is watched besides connections, which have their ids.
constexpr std::uint64_t kListener = 0;
constexpr std::uint64_t kLongCommits = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kStatements = kLongCommits - 1;

// Messages of one role that wait to be read, each for a second at most.
constexpr std::size_t kStatementsOfRoleMax = 16;

// A line to another host may be cut without a word: who is gone is noticed after some minutes, and its place is free
// again.
void WatchLine(int socket) {
  const int yes = 1;
  const int idle_s = 60;
  const int interval_s = 10;
  ::setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

const char* NameOf(Outcome::Is outcome) {
  switch (outcome) {
    case Outcome::Is::kCommitted:
      return "committed";
    case Outcome::Is::kAborted:
      return "aborted";
    case Outcome::Is::kForgotten:
      break;
  }
  return "forgotten";
}

// Everybody on the machine, or in the network, may connect. Connections without a login keep nobody out: the oldest one
// has to go.
UserError TooManyLogins() {
  return {"53300", "too many connections to the psp commit hook have not logged in", "", ""};
}

bool MayComeLater(int error) { return error == EAGAIN || error == EINTR; }

}  // namespace

HookServer::HookServer(Options options)
    : options_(std::move(options)),
      protocol_options_{options_.token, options_.database, options_.write_set_bytes_max,
                        options_.address.tls},
      logins_max_(std::max(kLoginsMaxAtLeast, options_.connections_max)),
      scratch_(kReadBytes),
      long_commits_(options_.token, options_.write_set_bytes_max,
                    {options_.connections_max, options_.connections_max}),
      statements_(options_.token, options_.write_set_bytes_max,
                  {kStatementsOfRoleMax, options_.connections_max}) {
  ready_.Add(long_commits_.fd(), kLongCommits, PollSet::For::kRead);
  ready_.Add(statements_.fd(), kStatements, PollSet::For::kRead);
}

Result<Done, std::string> HookServer::Start() {
  if (options_.address.tls) {
    auto loaded = LoadCertificate();
    if (!loaded) return loaded;
  }
  auto listener = Listen(options_.address);
  if (!listener) return listener.error();
  listener_ = std::move(*listener);
  has_socket_file_ = !options_.address.directory.empty();
  ready_.Add(listener_.get(), kListener, PollSet::For::kRead);
  return Done{};
}

Result<Done, std::string> HookServer::LoadCertificate() {
  auto loaded = TlsCertificate::Load(options_.tls_files);
  if (!loaded) return loaded.error().what;
  certificate_ = std::move(*loaded);
  WarnOfCertificate();
  return Done{};
}

// Authorities sign for some weeks only: a daemon does not end for that.
void HookServer::RenewCertificate(std::int64_t now_us) {
  if (!certificate_ || now_us < renew_us_) return;
  renew_us_ = now_us + kRenewEveryUs;
  if (const std::string problem = certificate_->Renew(); !problem.empty())
    spdlog::warn("commit hook: the certificate of before stays in use: {}", problem);
  WarnOfCertificate();
}

void HookServer::WarnOfCertificate() {
  for (const std::string& warning : certificate_->Warnings(options_.tls_host, std::time(nullptr))) {
    if (logged_.First(warning)) spdlog::warn("commit hook: {}", warning);
  }
}

void HookServer::Stop() {
  StopAccepting();
  while (!connections_.empty()) {
    const auto ending = connections_.extract(connections_.begin());
    ending.mapped().protocol.Stop({"57P01", "the psp semi-primary is stopping", "", ""});
    ending.mapped().waits_for_reply = false;
    Send(ending.mapped());
  }
  logging_in_.clear();
  if (std::exchange(has_socket_file_, false)) ::unlink(options_.address.SocketPath().c_str());
}

std::vector<HookServer::Event> HookServer::Serve(std::int64_t now_us) {
  for (const std::uint64_t name : ready_.TakeReady()) {
    if (name == kListener) {
      Accept(now_us);
    } else if (name == kLongCommits) {
      TakeRead(&long_commits_);
    } else if (name == kStatements) {
      TakeRead(&statements_);
    } else if (const auto connection = connections_.find(name); connection != connections_.end()) {
      OnReady(connection->second);
    }
  }
  RefuseLateLogins(now_us);
  RenewCertificate(now_us);
  if (accept_again_us_ != 0 && now_us >= accept_again_us_ && listener_.is_open()) {
    accept_again_us_ = 0;
    ready_.Change(listener_.get(), kListener, PollSet::For::kRead);
  }
  return std::exchange(events_, {});
}

void HookServer::Accept(std::int64_t now_us) {
  for (int i = 0; i < kAcceptsAtOnce; ++i) {
    FileDescriptor socket(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (socket.is_open()) {
      Begin(std::move(socket), now_us);
    } else if (MayComeLater(errno) || errno == ECONNABORTED) {
      return;
    } else if (logging_in_.empty()) {
      return PauseAccepting(now_us);
    } else {
      RefuseLogin(logging_in_.begin()->first, TooManyLogins());
    }
  }
}

// Most likely out of descriptors: a connection that ends frees one.
void HookServer::PauseAccepting(std::int64_t now_us) {
  if (logged_.First("accept"))
    spdlog::error("commit hook: cannot accept a connection: {}", std::strerror(errno));
  accept_again_us_ = now_us + kAcceptPauseUs;
  ready_.Change(listener_.get(), kListener, PollSet::For::kNothing);
}

void HookServer::Begin(FileDescriptor socket, std::int64_t now_us) {
  const HookConnectionId id = next_id_++;
  Connection& connection =
      connections_.try_emplace(id, id, std::move(socket), protocol_options_).first->second;
  if (options_.address.tls) WatchLine(connection.socket.get());
  ready_.Add(connection.socket.get(), id, PollSet::For::kRead);
  if (connections_.size() - logging_in_.size() > options_.connections_max) {
    if (logged_.First("connections")) {
      spdlog::warn("commit hook: more than hook_connections_max = {} connections", options_.connections_max);
    }
    connection.protocol.Refuse({"53300", "too many connections to the psp commit hook", "",
                                "Raise hook_connections_max of the semi-primary."});
    return SendAndEnd(connection);
  }
  logging_in_.emplace(id, now_us + options_.login_timeout_ms * 1000);
  if (logging_in_.size() > logins_max_) RefuseLogin(logging_in_.begin()->first, TooManyLogins());
}

void HookServer::RefuseLateLogins(std::int64_t now_us) {
  while (!logging_in_.empty() && now_us >= logging_in_.begin()->second) {
    RefuseLogin(logging_in_.begin()->first, {"08006", "no password within the time allowed", "", ""});
  }
}

void HookServer::RefuseLogin(HookConnectionId id, const UserError& why) {
  logging_in_.erase(id);
  if (logged_.First(why.message))
    spdlog::warn("commit hook: a client was refused: {} (such errors are logged once)", why.message);
  Connection& connection = connections_.at(id);
  connection.protocol.Refuse(why);
  SendAndEnd(connection);
}

// Who has not logged in is not waited for.
void HookServer::SendAndEnd(Connection& connection) {
  const HookConnectionId id = connection.id;
  Send(connection);
  if (const auto left = connections_.find(id); left != connections_.end()) End(left->second);
}

void HookServer::OnReady(Connection& connection) {
  if (!connection.unsent.empty()) return Send(connection);
  Read(connection);
}

void HookServer::Read(Connection& connection) {
  const ssize_t bytes = ::read(connection.socket.get(), scratch_.data(), scratch_.size());
  if (bytes < 0 && MayComeLater(errno)) return;
  if (bytes <= 0) return End(connection);
  const std::string_view arrived(scratch_.data(), static_cast<std::size_t>(bytes));
  connection.protocol.Feed(connection.stream.Receive(arrived, &decrypted_));
  if (const std::string& problem = connection.stream.problem(); !problem.empty() && logged_.First(problem))
    spdlog::warn("commit hook: TLS with a client failed: {} (such errors are logged once)", problem);
  const bool ended = connection.stream.ended();
  const HookConnectionId id = connection.id;
  AfterFeed(connection);
  if (!ended) return;
  if (const auto left = connections_.find(id); left != connections_.end()) End(left->second);
}

void HookServer::AfterFeed(Connection& connection) {
  HookProtocol& protocol = connection.protocol;
  if (protocol.authenticated()) logging_in_.erase(connection.id);
  if (!protocol.problem().empty() && logged_.First(protocol.problem())) {
    spdlog::warn("commit hook: a client was refused: {} (such errors are logged once)", protocol.problem());
  }
  if (auto line = protocol.TakeLongRequest()) PushLongRequest(connection, std::move(*line));
  if (auto request = protocol.TakeRequest()) {
    connection.waits_for_reply = true;
    events_.push_back({connection.id, std::move(request)});
  }
  Send(connection);
}

void HookServer::PushLongRequest(Connection& connection, std::string line) {
  if (const auto role = AskingRole(line)) {
    if (statements_.TryPush(*role, connection.id, std::move(line))) return;
    connection.protocol.ReplyError({"53400",
                                    "psp: too many messages of this role wait to be split into statements",
                                    "", "Retry when other sessions of the role have ended theirs."});
  } else if (!long_commits_.TryPush(0, connection.id, std::move(line))) {
    connection.protocol.ReplyError(
        {"53200", "too many large transactions commit at once", "", "Retry the transaction."});
  }
}

void HookServer::TakeRead(LongRequests* requests) {
  for (LongRequests::Read& read : requests->TakeRead()) {
    const auto connection = connections_.find(read.connection);
    if (connection == connections_.end()) continue;
    connection->second.protocol.OnRead(std::move(read.request));
    AfterFeed(connection->second);
  }
}

void HookServer::TakeOutput(Connection& connection) const {
  connection.stream.Write(connection.protocol.TakeOutput());
  if (connection.protocol.TakeTlsBegin()) connection.stream.BeginTls(certificate_->NewSession());
  if (connection.protocol.closed()) connection.stream.SayGoodbye();
  connection.unsent += connection.stream.TakeOutput();
}

void HookServer::Send(Connection& connection) {
  const bool was_stuck = !connection.unsent.empty();
  TakeOutput(connection);
  while (connection.sent_bytes < connection.unsent.size()) {
    const std::string_view rest = std::string_view(connection.unsent).substr(connection.sent_bytes);
    const ssize_t bytes = ::send(connection.socket.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (bytes < 0 && errno != EINTR && MayComeLater(errno)) {
      if (!was_stuck) ready_.Change(connection.socket.get(), connection.id, PollSet::For::kWrite);
      return;
    }
    if (bytes < 0 && errno != EINTR) return End(connection);
    if (bytes > 0) connection.sent_bytes += static_cast<std::size_t>(bytes);
  }
  connection.unsent.clear();
  connection.sent_bytes = 0;
  if (connection.protocol.closed()) return End(connection);
  if (was_stuck) ready_.Change(connection.socket.get(), connection.id, PollSet::For::kRead);
}

void HookServer::End(Connection& connection) {
  if (connection.waits_for_reply) events_.push_back({connection.id, std::nullopt});
  long_commits_.Drop(connection.id);
  statements_.Drop(connection.id);
  logging_in_.erase(connection.id);
  connections_.erase(connection.id);
}

void HookServer::Reply(HookConnectionId id, const FrontAnswer& reply) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  Connection& connection = found->second;
  connection.waits_for_reply = false;
  if (const auto* error = std::get_if<UserError>(&reply)) {
    connection.protocol.ReplyError(*error);
  } else if (const auto* committed = std::get_if<Committed>(&reply)) {
    connection.protocol.ReplyCommitted(committed->global_t);
  } else if (const auto* held = std::get_if<Held>(&reply)) {
    connection.protocol.ReplyHeld(held->granted);
  } else if (const auto* reached = std::get_if<Reached>(&reply)) {
    connection.protocol.ReplyText("reach", reached->yes ? "reached" : "waiting");
  } else if (std::holds_alternative<Noted>(reply)) {
    connection.protocol.ReplyText("lost", "noted");
  } else {
    connection.protocol.ReplyText("outcome", NameOf(std::get<Outcome>(reply).is));
  }
  AfterFeed(connection);
}

}  // namespace psp::sp
