// The commit hook's server: many backends' connections. It never waits: the main loop polls fd() and calls Serve.
//
// One thread. Only requests that take long to read have threads of their own (long_requests.h). Memory of an
// idle connection: a few hundred bytes, with TLS some ten kilobytes. A client that does not read its answers is not
// read either.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/file_descriptor.h"
#include "common/ids.h"
#include "common/log.h"
#include "common/poll_set.h"
#include "common/result.h"
#include "semi_primary/front/local_commit.h"
#include "semi_primary/hook_server/byte_stream.h"
#include "semi_primary/hook_server/listen_address.h"
#include "semi_primary/hook_server/long_requests.h"
#include "semi_primary/hook_server/protocol.h"
#include "semi_primary/hook_server/request.h"
#include "semi_primary/hook_server/tls_certificate.h"

namespace psp::sp {

using HookConnectionId = std::uint64_t;  // never used again; not 0

class HookServer {
 public:
  struct Options {
    ListenAddress address;
    std::string token;
    std::string database;  // psp.this_database() of the one that may commit here; copies of it may not
    std::size_t write_set_bytes_max = 0;
    std::size_t connections_max = 0;
    std::int64_t login_timeout_ms = 10000;
    // If the address is one with TLS:
    TlsFiles tls_files{};
    std::string tls_host{};  // where the database's server looks for the daemon; for warnings
  };
  struct Event {
    HookConnectionId connection = 0;
    // A request that waits (HookProtocol::TakeRequest): exactly one Reply is expected, unless the connection ends first.
    // Nothing: the connection ended while its request was waiting.
    std::optional<HookRequest> request;
  };

  explicit HookServer(Options options);  // throws std::system_error when the process has no descriptors left
  ~HookServer() { Stop(); }
  HookServer(const HookServer&) = delete;
  HookServer& operator=(const HookServer&) = delete;

  // Binds. The error says what is wrong with the address (somebody listens there, …) or with the files for TLS.
  Result<Done, std::string> Start();

  // Readable when Serve has something to do. If HasEvents, Serve returns something even if it is not.
  int fd() const { return ready_.fd(); }
  bool HasEvents() const { return !events_.empty(); }

  // Reads, answers and sends what is possible now. To be called several times a second.
  std::vector<Event> Serve(std::int64_t now_us);

  // Ignored when the connection has gone.
  void Reply(HookConnectionId connection, const FrontAnswer& reply);

  // New connections are refused from now on (libpq: connection refused).
  void StopAccepting() { listener_.Close(); }

  // Ends every connection. What has been replied has been sent, unless the client does not read.
  void Stop();

 private:
  struct Connection {
    Connection(HookConnectionId number, FileDescriptor connected, const HookProtocol::Options& options)
        : id(number), socket(std::move(connected)), protocol(options) {}
    const HookConnectionId id;
    const FileDescriptor socket;
    HookProtocol protocol;
    ByteStream stream;           // between the protocol and the socket
    std::string unsent;          // the client has not read enough: nothing is read from it until it has
    std::size_t sent_bytes = 0;  // of `unsent`
    bool waits_for_reply = false;
  };

  Result<Done, std::string> LoadCertificate();
  void RenewCertificate(std::int64_t now_us);
  void WarnOfCertificate();
  void Accept(std::int64_t now_us);
  void PauseAccepting(std::int64_t now_us);
  void Begin(FileDescriptor socket, std::int64_t now_us);
  void RefuseLateLogins(std::int64_t now_us);
  void TakeRead(LongRequests* requests);
  void PushLongRequest(Connection& connection, std::string line);
  // Each of these may end the connection, which is gone then.
  void OnReady(Connection& connection);
  void Read(Connection& connection);
  void AfterFeed(Connection& connection);
  void TakeOutput(Connection& connection) const;
  void Send(Connection& connection);
  void RefuseLogin(HookConnectionId id, const UserError& why);
  void SendAndEnd(Connection& connection);
  void End(Connection& connection);

  const Options options_;
  const HookProtocol::Options protocol_options_;
  // Of connections without a login. After a restart of the daemon all backends come back together.
  const std::size_t logins_max_;
  PollSet ready_;
  FileDescriptor listener_;
  bool has_socket_file_ = false;
  std::int64_t accept_again_us_ = 0;  // 0: accepting
  std::unordered_map<HookConnectionId, Connection> connections_;
  std::map<HookConnectionId, std::int64_t> logging_in_;  // until when; oldest first
  HookConnectionId next_id_ = 1;
  std::vector<char> scratch_;  // one for all: a read never leaves bytes in it
  std::string decrypted_;      // the same
  std::optional<TlsCertificate> certificate_;
  std::int64_t renew_us_ = 0;
  std::vector<Event> events_;  // since the last Serve
  LogOnce logged_;
  LongRequests long_commits_;  // and other long requests
  LongRequests statements_;    // messages of any role: no COMMIT waits for them
};

}  // namespace psp::sp
