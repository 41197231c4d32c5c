// The server in a folder of its own, with a loop that answers, and clients.
#pragma once

#include <gtest/gtest.h>
#include <libpq-fe.h>
#include <poll.h>
#include <unistd.h>

#include <asio.hpp>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <pqxx/pqxx>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "common/clock.h"
#include "common/pg_binary.h"
#include "semi_primary/hook_server/hook_server.h"
#include "semi_primary/hook_server/proof.h"

namespace psp::sp {

class HookServerTest : public ::testing::Test {
 protected:
  HookServerTest() {
    char name[] = "/tmp/psp_hook_XXXXXX";
    directory_ = ::mkdtemp(name);
    options_.address = {directory_, "", 5999};
    options_.token = "secret";
    options_.database = "here";
    options_.write_set_bytes_max = 1 << 20;
    options_.connections_max = 300;
  }
  ~HookServerTest() override {
    loop_.request_stop();
    if (loop_.joinable()) loop_.join();
    server_.reset();
    ::rmdir(directory_.c_str());
  }

  void Listen() {
    server_ = std::make_unique<HookServer>(options_);
    const auto started = server_->Start();
    ASSERT_TRUE(started.ok()) << started.error();
  }
  // With a main loop that answers everything.
  void Start() {
    ASSERT_NO_FATAL_FAILURE(Listen());
    loop_ = std::jthread([this](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        Wait();
        for (const HookServer::Event& event : server_->Serve(MonotonicUs())) Answer(event);
      }
    });
  }
  void Wait() const {
    pollfd item{server_->fd(), POLLIN, 0};
    if (!server_->HasEvents()) ::poll(&item, 1, 20);
  }
  void Answer(const HookServer::Event& event) {
    if (!event.request) return;
    const bool commits = std::holds_alternative<CommitRequest>(*event.request);
    server_->Reply(event.connection, commits ? reply_ : FrontAnswer(Outcome{Outcome::Is::kCommitted}));
  }
  // For tests without the loop: serves until something comes.
  std::vector<HookServer::Event> NextEvents() {
    for (int i = 0; i < 500; ++i) {
      Wait();
      if (auto events = server_->Serve(0); !events.empty()) return events;
    }
    return {};
  }
  // The same: a client that is logged in while this thread serves.
  std::unique_ptr<PGconn, decltype(&PQfinish)> LogInWithoutWaiting(const std::string& conninfo) {
    std::unique_ptr<PGconn, decltype(&PQfinish)> client(PQconnectStart(conninfo.c_str()), &PQfinish);
    PostgresPollingStatusType status = PGRES_POLLING_WRITING;
    for (int turn = 0; turn < 1000 && status != PGRES_POLLING_OK && status != PGRES_POLLING_FAILED; ++turn) {
      const short events = status == PGRES_POLLING_READING ? POLLIN : POLLOUT;
      pollfd item{PQsocket(client.get()), events, 0};
      if (::poll(&item, 1, 1) == 1) status = PQconnectPoll(client.get());
      server_->Serve(0);
    }
    EXPECT_EQ(status, PGRES_POLLING_OK) << PQerrorMessage(client.get());
    return client;
  }
  std::string Conninfo(const std::string& password = Proof("secret", "login") + "@here") const {
    return options_.address.Conninfo() + " user=psp dbname=psp password=" + password;
  }
  static std::string Ask(pqxx::connection& connection, const std::string& query) {
    pqxx::nontransaction tx(connection);
    return tx.exec1(query)[0].as<std::string>();
  }

  // A client that says by itself what it wants.
  asio::local::stream_protocol::socket Connect() {
    asio::local::stream_protocol::socket socket(io_);
    socket.connect(asio::local::stream_protocol::endpoint(options_.address.SocketPath()));
    return socket;
  }
  static std::string LogIn() {
    return Message("", std::string("\0\3\0\0user\0psp\0", 13)) +
           Message("p", Proof("secret", "login") + "@here");
  }
  static std::string Message(const std::string& type, const std::string& text) {
    std::string out = type;
    AppendInt32(&out, static_cast<std::int32_t>(4 + text.size() + 1));
    return out.append(text).append(1, '\0');
  }

  asio::io_context io_;
  std::string directory_;
  HookServer::Options options_;
  FrontAnswer reply_ = Committed{42};
  std::unique_ptr<HookServer> server_;
  std::jthread loop_;
};

inline const std::string kTx = "00112233-4455-6677-8899-aabbccddeeff";

// A commit request without rows, or an outcome request.
inline std::string CommitRequestLine() {
  const std::string head = kTx + " 1 10 -";
  return "commit " + head + " " + Proof("secret", head + Sha256("")) + " ";
}
inline std::string OutcomeRequestLine() {
  const std::string asked = "outcome " + kTx + " 10";
  return asked + " " + Proof("secret", asked);
}

}  // namespace psp::sp
