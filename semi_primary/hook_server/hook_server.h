// The commit hook's server: many backends' connections on one thread.
//
// Threads: it runs its own; the handlers are called there and must not block for long. Reply and
// StopAccepting may be called from any thread. Memory of an idle connection: a few hundred bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/ids.h"
#include "common/result.h"
#include "common/user_error.h"
#include "semi_primary/front/local_commit.h"
#include "semi_primary/hook_server/listen_address.h"
#include "semi_primary/hook_server/request.h"

namespace psp::sp {

using HookConnectionId = std::uint64_t;  // never used again

class HookServer {
 public:
  struct Options {
    ListenAddress address;
    std::string token;
    std::string database;  // psp.this_database() of the one that may commit here; copies of it may not
    std::size_t write_set_bytes_max = 0;
    std::size_t connections_max = 0;
    std::int64_t login_timeout_ms = 10000;
  };
  struct Handlers {
    // A commit, outcome or hold request; exactly one Reply is expected, unless on_gone comes first.
    std::function<void(HookConnectionId, HookRequest)> on_request;
    // The connection ended while its request was waiting.
    std::function<void(HookConnectionId)> on_gone;
  };

  HookServer(Options options, Handlers handlers);
  ~HookServer();  // closes everything and joins the thread
  HookServer(const HookServer&) = delete;
  HookServer& operator=(const HookServer&) = delete;

  // Binds and starts the thread. The error says what is wrong with the address (somebody listens there, …).
  Result<Done, std::string> Start();

  // Ignored when the connection has gone.
  void Reply(HookConnectionId connection, FrontAnswer reply);

  // New connections are refused from now on (libpq: connection refused).
  void StopAccepting();

  // Sends what has been replied, then ends every connection and the thread. Called by the destructor too.
  void Stop();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace psp::sp
