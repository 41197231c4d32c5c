// The server with TLS, with real libpq clients that check its certificate, and with sockets that misbehave.
#include <gmock/gmock.h>
#include <libpq-fe.h>
#include <sys/socket.h>

#include <cerrno>
#include <filesystem>

#include "common/hex.h"
#include "semi_primary/hook_server/hook_server_fixture.h"
#include "semi_primary/hook_server/test_certificates.h"
#include "semi_primary/hook_server/wire.h"

namespace psp::sp {
namespace {

using ::testing::HasSubstr;

constexpr int kWaitMs = 20'000;
constexpr std::int64_t kRenewedUs = 60'000'000;

class HookTlsTest : public HookServerTest {
 protected:
  struct Client {
    std::unique_ptr<PGconn, decltype(&PQfinish)> libpq;
    PostgresPollingStatusType next = PGRES_POLLING_WRITING;
  };

  HookTlsTest() : authority_(directory_) {
    authority_.Sign("daemon", "daemon.example");
    asio::ip::tcp::acceptor free(io_, {asio::ip::make_address("127.0.0.1"), 0});
    options_.address = {"", "127.0.0.1", free.local_endpoint().port(), true};
    options_.tls_files = {directory_ + "/daemon.crt", directory_ + "/daemon.key"};
    options_.tls_host = "daemon.example";
    options_.write_set_bytes_max = 4 << 20;
  }
  ~HookTlsTest() override {
    for (const char* name : {"daemon", "root"}) {
      for (const char* type : {".crt", ".key"}) std::filesystem::remove(directory_ + "/" + name + type);
    }
  }

  // As a backend connects, which finds the name's address by itself.
  std::string Conninfo(const std::string& host = "daemon.example") const {
    return TlsConninfo({host, options_.address.port}, authority_.root()) + Login();
  }
  std::string Login() const {
    return " hostaddr=127.0.0.1 user=psp dbname=psp password=" + Proof("secret", "login") + "@here";
  }
  static std::string FailureOf(const std::string& conninfo) {
    try {
      const pqxx::connection connection(conninfo);
    } catch (const pqxx::broken_connection& failure) {
      return failure.what();
    }
    return "connected";
  }
  // A client that says by itself what it wants.
  asio::ip::tcp::socket ConnectTcp() {
    asio::ip::tcp::socket socket(io_);
    socket.connect({asio::ip::make_address("127.0.0.1"), options_.address.port});
    return socket;
  }
  static std::string AskForTls() {
    std::string request;
    AppendInt32(&request, 8);
    AppendInt32(&request, static_cast<std::int32_t>(wire::kSslRequest));
    return request;
  }
  // The begin of a handshake: a record of 512 bytes, of which most are missing.
  static std::string HalfAHello() { return std::string("\x16\x03\x01\x02\x00\x01\x00", 7); }
  // What the server says until it ends the connection.
  static std::string Rest(asio::ip::tcp::socket& socket) {
    std::string said;
    asio::error_code end;
    asio::read(socket, asio::dynamic_buffer(said), end);
    return said;
  }
  // The next step of connecting, when it can be made; whether it is over.
  static bool GoOn(Client& client) {
    if (client.next == PGRES_POLLING_OK || client.next == PGRES_POLLING_FAILED) return true;
    const short events = client.next == PGRES_POLLING_READING ? POLLIN : POLLOUT;
    pollfd item{PQsocket(client.libpq.get()), events, 0};
    if (::poll(&item, 1, 0) == 1) client.next = PQconnectPoll(client.libpq.get());
    return false;
  }
  static std::string StatementsRequest(const std::string& message) {
    return "statements 10 " + Proof("secret", "statements 10 " + Sha256(message)) + " " + EncodeHex(message);
  }

  TestAuthority authority_;
};

// As dblink since PostgreSQL 17 and the server module ask.
std::string AskWithoutWaiting(PGconn* connection, const std::string& request) {
  EXPECT_EQ(PQsendQuery(connection, request.c_str()), 1);
  while (PQisBusy(connection) != 0) {
    pollfd item{PQsocket(connection), POLLIN, 0};
    if (::poll(&item, 1, kWaitMs) != 1) return "nothing came";
    if (PQconsumeInput(connection) == 0) return PQerrorMessage(connection);
  }
  const std::unique_ptr<PGresult, decltype(&PQclear)> result(PQgetResult(connection), &PQclear);
  return PQgetvalue(result.get(), 0, 0);
}

TEST_F(HookTlsTest, LibpqChecksTheCertificateAndCommits) {
  Start();
  pqxx::connection connection(Conninfo());
  EXPECT_EQ(Ask(connection, "ping"), "ok");
  pqxx::nontransaction(connection).exec0(CommitRequestLine());
  EXPECT_EQ(Ask(connection, OutcomeRequestLine()), "committed");
}

TEST_F(HookTlsTest, BothVersionsOfTlsAndNoOlderOne) {
  Start();
  for (const char* version : {"TLSv1.2", "TLSv1.3"}) {
    const std::string only =
        std::string(" ssl_min_protocol_version=") + version + " ssl_max_protocol_version=";
    pqxx::connection connection(Conninfo() + only + version);
    EXPECT_EQ(Ask(connection, "ping"), "ok");
  }
  EXPECT_NE(FailureOf(Conninfo() + " ssl_min_protocol_version=TLSv1 ssl_max_protocol_version=TLSv1.1"),
            "connected");
}

TEST_F(HookTlsTest, WhoDoesNotKnowTheAuthorityDoesNotConnect) {
  Start();
  const std::string folder = directory_ + "/other";
  std::filesystem::create_directory(folder);
  const TestAuthority other(folder);
  EXPECT_THAT(FailureOf(TlsConninfo({"daemon.example", options_.address.port}, other.root()) + Login()),
              HasSubstr("certificate verify failed"));
  std::filesystem::remove_all(folder);
  pqxx::connection connection(TlsConninfo({"daemon.example", options_.address.port}, kNoRoots) + Login());
  EXPECT_EQ(Ask(connection, "ping"), "ok");
}

TEST_F(HookTlsTest, WhoLooksForAnotherHostDoesNotConnect) {
  Start();
  EXPECT_THAT(FailureOf(Conninfo("another.example")),
              HasSubstr("does not match host name \"another.example\""));
  pqxx::connection connection(Conninfo());
  EXPECT_EQ(Ask(connection, "ping"), "ok");
}

TEST_F(HookTlsTest, WithoutTlsNobodyIsAskedForAPassword) {
  Start();
  const std::string plain = ListenAddress{"", "127.0.0.1", options_.address.port, true}.Conninfo();
  EXPECT_THAT(FailureOf(plain + Login()), HasSubstr("takes connections with TLS only"));
}

// Several megabytes, more than a socket takes at once.
TEST_F(HookTlsTest, LongRequestsAndAnswersCrossInPieces) {
  Start();
  const std::unique_ptr<PGconn, decltype(&PQfinish)> connection(PQconnectdb(Conninfo().c_str()), &PQfinish);
  ASSERT_EQ(PQstatus(connection.get()), CONNECTION_OK) << PQerrorMessage(connection.get());
  for (const int statements : {1, 300, 700, 2000, 5000, 9000, 160000}) {
    std::string message;
    for (int i = 0; i < statements; ++i) message += "BEGIN;";
    const std::string answer = AskWithoutWaiting(connection.get(), StatementsRequest(message));
    const std::string last = "transaction " + std::to_string(message.size() - 6) + " 5";
    EXPECT_TRUE(answer.ends_with(last)) << statements << " statements: " << answer.substr(0, 100);
    PQclear(PQgetResult(connection.get()));
  }
}

// The hook takes a byte on an idle connection for its end.
TEST_F(HookTlsTest, NothingIsSentThatNobodyHasAskedFor) {
  Start();
  pqxx::connection connection(Conninfo());
  EXPECT_EQ(Ask(connection, "ping"), "ok");
  char byte = 0;
  EXPECT_EQ(::recv(connection.sock(), &byte, 1, MSG_PEEK | MSG_DONTWAIT), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST_F(HookTlsTest, WhoIsSlowInTheHandshakeHoldsUpNobody) {
  Start();
  std::vector<asio::ip::tcp::socket> slow;
  for (std::size_t i = 0; i < options_.connections_max + 1; ++i) {
    asio::write(slow.emplace_back(ConnectTcp()), asio::buffer(AskForTls()));
    char answer = 0;
    asio::read(slow.back(), asio::buffer(&answer, 1));
    EXPECT_EQ(answer, 'S');
    asio::write(slow.back(), asio::buffer(HalfAHello()));
  }
  pqxx::connection connection(Conninfo());
  EXPECT_EQ(Ask(connection, "ping"), "ok");
  EXPECT_EQ(Rest(slow.front()), "");  // the oldest of those without a login had to go
}

// After a restart of the daemon all backends come back together.
TEST_F(HookTlsTest, ManyLogInAtTheSameTimeAndNobodyHasToGo) {
  Listen();
  std::vector<Client> clients;
  for (std::size_t i = 0; i < options_.connections_max; ++i) {
    clients.push_back({{PQconnectStart(Conninfo().c_str()), &PQfinish}});
    server_->Serve(0);
  }
  for (bool is_done = false; !is_done;) {
    is_done = true;
    for (Client& client : clients) is_done = GoOn(client) && is_done;
    server_->Serve(0);
  }
  for (const Client& client : clients)
    EXPECT_EQ(client.next, PGRES_POLLING_OK) << PQerrorMessage(client.libpq.get());
}

TEST_F(HookTlsTest, WhoDoesNotEndTheHandshakeInTimeIsGone) {
  Listen();
  auto client = ConnectTcp();
  asio::write(client, asio::buffer(AskForTls()));
  char answer = 0;
  while (client.available() == 0) {
    Wait();
    server_->Serve(0);
  }
  asio::read(client, asio::buffer(&answer, 1));
  asio::write(client, asio::buffer(HalfAHello()));
  Wait();
  server_->Serve(0);
  server_->Serve(options_.login_timeout_ms * 1000);
  EXPECT_EQ(Rest(client), "");
}

TEST_F(HookTlsTest, WhatIsNoHandshakeEndsTheConnection) {
  Start();
  auto garbage = ConnectTcp();
  asio::write(garbage, asio::buffer(AskForTls()));
  char answer = 0;
  asio::read(garbage, asio::buffer(&answer, 1));
  asio::write(garbage, asio::buffer(std::string("GET / HTTP/1.1\r\nHost: here\r\n\r\n")));
  EXPECT_LT(Rest(garbage).size(), 100U);  // an alert of TLS
  auto early = ConnectTcp();
  asio::write(early, asio::buffer(AskForTls() + HalfAHello()));
  EXPECT_THAT(Rest(early), HasSubstr("more bytes behind the request for TLS"));
  pqxx::connection connection(Conninfo());
  EXPECT_EQ(Ask(connection, "ping"), "ok");
}

TEST_F(HookTlsTest, WhoLeavesInTheMiddleIsReported) {
  Listen();
  const auto owner = LogInWithoutWaiting(Conninfo());
  ASSERT_EQ(PQsendQuery(owner.get(), CommitRequestLine().c_str()), 1);
  const auto request = NextEvents();
  ASSERT_EQ(request.size(), 1U);
  EXPECT_TRUE(request[0].request.has_value());
  ::shutdown(PQsocket(owner.get()), SHUT_RDWR);  // without a word of TLS
  const auto gone = NextEvents();
  ASSERT_EQ(gone.size(), 1U);
  EXPECT_EQ(gone[0].connection, request[0].connection);
  EXPECT_FALSE(gone[0].request.has_value());
  server_->Reply(gone[0].connection, reply_);
}

TEST_F(HookTlsTest, WhoIsIdleSeesTheEndAtOnce) {
  Listen();
  const auto client = LogInWithoutWaiting(Conninfo());
  server_->Stop();
  EXPECT_EQ(PQconsumeInput(client.get()), 0);
  EXPECT_EQ(PQstatus(client.get()), CONNECTION_BAD);
}

TEST_F(HookTlsTest, ClientsSeeANewCertificateWithoutARestart) {
  Listen();
  authority_.Sign("daemon", "renewed.example");
  server_->Serve(kRenewedUs);
  loop_ = std::jthread([this](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      Wait();
      server_->Serve(kRenewedUs);
    }
  });
  EXPECT_THAT(FailureOf(Conninfo()), HasSubstr("does not match host name \"daemon.example\""));
  pqxx::connection connection(Conninfo("renewed.example"));
  EXPECT_EQ(Ask(connection, "ping"), "ok");
}

TEST_F(HookTlsTest, ItDoesNotStartWithoutItsCertificate) {
  options_.tls_files.certificate += ".missing";
  const auto started = HookServer(options_).Start();
  ASSERT_FALSE(started.ok());
  EXPECT_THAT(started.error(), HasSubstr("daemon.crt.missing': No such file"));
}

}  // namespace
}  // namespace psp::sp
