// The server with real libpq clients, and with sockets that misbehave.
#include "semi_primary/hook_server/hook_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <spdlog/sinks/ostream_sink.h>
#include <unistd.h>

#include <algorithm>
#include <asio.hpp>
#include <memory>
#include <pqxx/pqxx>
#include <sstream>

#include "common/hex.h"
#include "common/pg_binary.h"
#include "semi_primary/hook_server/descriptors_limit.h"
#include "semi_primary/hook_server/hook_server_fixture.h"
#include "semi_primary/hook_server/message_statements.h"
#include "semi_primary/hook_server/proof.h"

namespace psp::sp {
namespace {

using ::testing::HasSubstr;

// While it lives, the log goes there.
class LogTo {
 public:
  explicit LogTo(std::ostream* out) : before_(spdlog::default_logger()) {
    spdlog::set_default_logger(std::make_shared<spdlog::logger>(
        "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(*out, true)));
  }
  ~LogTo() { spdlog::set_default_logger(before_); }
  LogTo(const LogTo&) = delete;
  LogTo& operator=(const LogTo&) = delete;

 private:
  const std::shared_ptr<spdlog::logger> before_;
};

TEST_F(HookServerTest, LibpqCommits) {
  Start();
  pqxx::connection connection(Conninfo());
  EXPECT_EQ(Ask(connection, "ping"), "ok");
  pqxx::nontransaction(connection).exec0(CommitRequestLine());
  EXPECT_EQ(Ask(connection, OutcomeRequestLine()), "committed");
}

TEST_F(HookServerTest, LibpqAsksForTheStatementsOfAMessage) {
  options_.write_set_bytes_max = 4 << 20;
  Start();
  pqxx::connection connection(Conninfo());
  const auto ask = [&](const std::string& message) {
    const std::string proof = Proof("secret", "statements 10 " + Sha256(message));
    return Ask(connection, "statements 10 " + proof + " " + EncodeHex(message));
  };
  EXPECT_TRUE(ask("SELECT 1; DROP TABLE t").ends_with(" other 0 8\nddl 10 12"));
  try {
    ask(std::string(kMessageBytesMax + 1, ' '));
    FAIL();
  } catch (const pqxx::sql_error& error) {
    EXPECT_EQ(error.sqlstate(), "54000");
  }
  EXPECT_EQ(Ask(connection, "ping"), "ok");
}

TEST_F(HookServerTest, ALongRequestIsReadElsewhere) {
  Start();
  pqxx::connection connection(Conninfo());
  const std::string message = std::string(100'000, ' ') + "DROP TABLE t";
  const std::string proof = Proof("secret", "statements 10 " + Sha256(message));
  EXPECT_TRUE(
      Ask(connection, "statements 10 " + proof + " " + EncodeHex(message)).ends_with(" ddl 100000 12"));
  EXPECT_EQ(Ask(connection, "ping"), "ok");
}

TEST_F(HookServerTest, WhoLeavesWhileItsRequestWaitsIsReported) {
  Listen();
  auto client = Connect();
  asio::write(client, asio::buffer(LogIn() + Message("Q", CommitRequestLine())));
  const auto request = NextEvents();
  ASSERT_EQ(request.size(), 1U);
  EXPECT_TRUE(request[0].request.has_value());
  client.close();
  const auto gone = NextEvents();
  ASSERT_EQ(gone.size(), 1U);
  EXPECT_EQ(gone[0].connection, request[0].connection);
  EXPECT_FALSE(gone[0].request.has_value());
  server_->Reply(gone[0].connection, reply_);
}

// What is asked together, against the protocol, is answered one by one.
TEST_F(HookServerTest, ARequestThatWaitsBehindAnotherIsAnEventOfItsOwn) {
  Listen();
  auto client = Connect();
  asio::write(client,
              asio::buffer(LogIn() + Message("Q", CommitRequestLine()) + Message("Q", OutcomeRequestLine())));
  const auto first = NextEvents();
  ASSERT_EQ(first.size(), 1U);
  EXPECT_FALSE(server_->HasEvents());
  server_->Reply(first[0].connection, reply_);
  EXPECT_TRUE(server_->HasEvents());
  const auto second = NextEvents();
  ASSERT_EQ(second.size(), 1U);
  EXPECT_TRUE(std::holds_alternative<HookOutcomeRequest>(*second[0].request));
}

TEST_F(HookServerTest, WhoDoesNotReadItsAnswersIsNotReadEither) {
  Start();
  auto deaf = Connect();
  asio::write(deaf, asio::buffer(LogIn()));
  deaf.non_blocking(true);
  std::string pings;
  for (int i = 0; i < 1000; ++i) pings += Message("Q", "ping");
  asio::error_code error;
  std::size_t bytes = 0;
  while (bytes < (64 << 20) && !error) {
    bytes += deaf.write_some(asio::buffer(pings) + bytes % pings.size(), error);
    // Its socket may be full only because the loop has not come to it yet.
    pollfd item{deaf.native_handle(), POLLOUT, 0};
    if (error == asio::error::would_block && ::poll(&item, 1, 200) == 1) error.clear();
  }
  EXPECT_EQ(error, asio::error::would_block);
  pqxx::connection connection(Conninfo());
  EXPECT_EQ(Ask(connection, "ping"), "ok");
}

TEST_F(HookServerTest, WhoDoesNotLogInInTimeIsRefused) {
  Listen();
  auto client = Connect();
  server_->Serve(0);
  server_->Serve(options_.login_timeout_ms * 1000 - 1);
  EXPECT_EQ(client.available(), 0U);
  server_->Serve(options_.login_timeout_ms * 1000);
  std::string answer;
  asio::error_code end;
  asio::read(client, asio::dynamic_buffer(answer), end);
  EXPECT_EQ(end, asio::error::eof);
  EXPECT_NE(answer.find("no password within the time allowed"), std::string::npos);
}

// The hook looks once, before it sends anything: a message in front of the end would hide it.
TEST_F(HookServerTest, WhoIsIdleSeesTheEndAtOnce) {
  Listen();
  const auto client = LogInWithoutWaiting(Conninfo());
  server_->Stop();
  EXPECT_EQ(PQconsumeInput(client.get()), 0);
  EXPECT_EQ(PQstatus(client.get()), CONNECTION_BAD);
}

TEST_F(HookServerTest, ErrorsReachLibpq) {
  reply_ = UserError{"40001", "conflict", "somewhere", "retry"};
  Start();
  pqxx::connection connection(Conninfo());
  EXPECT_THROW(Ask(connection, CommitRequestLine()), pqxx::serialization_failure);
  EXPECT_EQ(Ask(connection, "ping"), "ok");
}

TEST_F(HookServerTest, TooLargeWriteSetReachesLibpqAsAnError) {
  Start();
  pqxx::connection connection(Conninfo());
  try {
    Ask(connection, CommitRequestLine() + std::string(40 << 20, '0'));
    FAIL();
  } catch (const pqxx::sql_error& error) {
    EXPECT_EQ(error.sqlstate(), "54000");
  }
  EXPECT_EQ(Ask(connection, "ping"), "ok");
}

TEST_F(HookServerTest, WrongPassword) {
  Start();
  EXPECT_THROW(pqxx::connection{Conninfo("guess")}, pqxx::broken_connection);
}

TEST_F(HookServerTest, ManyIdleConnectionsAndOneTooMany) {
  Start();
  std::vector<std::unique_ptr<pqxx::connection>> connections;
  for (int i = 0; i < 300; ++i) connections.push_back(std::make_unique<pqxx::connection>(Conninfo()));
  EXPECT_EQ(Ask(*connections.back(), "ping"), "ok");
  EXPECT_THROW(pqxx::connection{Conninfo()}, pqxx::broken_connection);
  EXPECT_EQ(Ask(*connections.front(), "ping"), "ok");
}

TEST_F(HookServerTest, ConnectionsThatDoNotLogInKeepNobodyOut) {
  Start();
  asio::io_context io;
  const asio::local::stream_protocol::endpoint endpoint(options_.address.SocketPath());
  std::vector<asio::local::stream_protocol::socket> idle;
  for (int i = 0; i < 500; ++i) idle.emplace_back(io).connect(endpoint);
  pqxx::connection connection(Conninfo());
  EXPECT_EQ(Ask(connection, "ping"), "ok");
  char byte = 0;
  EXPECT_EQ(asio::read(idle.front(), asio::buffer(&byte, 1)), 1U);  // it was told why, and closed
  EXPECT_EQ(byte, 'E');
}

TEST_F(HookServerTest, WithoutDescriptorsTheOldestWithoutALoginHasToGo) {
  Listen();
  std::vector<asio::local::stream_protocol::socket> clients;
  for (int i = 0; i < 5; ++i) clients.push_back(Connect());
  {
    const FileDescriptor next(::dup(0));
    const DescriptorsLimit room_for_three(static_cast<rlim_t>(next.get()) + 4);  // one is kept free
    server_->Serve(0);
  }
  for (int i = 0; i < 5; ++i) EXPECT_EQ(clients[i].available() == 0, i >= 3) << i;
}

TEST_F(HookServerTest, WhoHasToGoIsLoggedOnce) {
  std::ostringstream log;
  const LogTo to_text(&log);
  Listen();
  std::vector<asio::local::stream_protocol::socket> clients;
  for (std::size_t i = 0; i < options_.connections_max + 2; ++i) {
    clients.push_back(Connect());
    server_->Serve(0);
  }
  EXPECT_THAT(log.str(), HasSubstr("too many connections to the psp commit hook have not logged in"));
  EXPECT_EQ(std::ranges::count(log.str(), '\n'), 1);
}

TEST_F(HookServerTest, SocketOfALivingServerIsNotRemoved) {
  Start();
  HookServer other(options_);
  EXPECT_FALSE(other.Start().ok());
  pqxx::connection connection(Conninfo());
  EXPECT_EQ(Ask(connection, "ping"), "ok");
}

TEST_F(HookServerTest, StaleSocketIsRemoved) {
  const std::string path = options_.address.SocketPath();
  {
    asio::io_context io;
    const asio::local::stream_protocol::acceptor dead(io, asio::local::stream_protocol::endpoint(path));
  }
  ASSERT_EQ(::access(path.c_str(), F_OK), 0);
  Start();
  pqxx::connection connection(Conninfo());
  EXPECT_EQ(Ask(connection, "ping"), "ok");
}

TEST_F(HookServerTest, WhereItCannotListenIsNamed) {
  Start();
  asio::io_context io;
  const asio::ip::tcp::acceptor taken(io, {asio::ip::make_address("127.0.0.1"), 0});
  HookServer::Options tcp = options_;
  tcp.address = {"", "127.0.0.1", taken.local_endpoint().port()};
  HookServer::Options nowhere = options_;
  nowhere.address.directory = "/no/such/directory";
  for (const HookServer::Options& options : {tcp, nowhere}) {
    const auto started = HookServer(options).Start();
    ASSERT_FALSE(started.ok());
    const std::string where =
        options.address.directory.empty()
            ? "127.0.0.1:" + std::to_string(options.address.port) + ": Address already in use"
            : "/no/such/directory/.s.PGSQL.5999: No such file or directory";
    EXPECT_NE(started.error().find(where), std::string::npos) << started.error();
  }
}

TEST(ListenAddressTest, Parses) {
  EXPECT_EQ(ParseListenAddress("unix:/run/psp/.s.PGSQL.77")->SocketPath(), "/run/psp/.s.PGSQL.77");
  EXPECT_EQ(ParseListenAddress("127.0.0.1:77")->Conninfo(),
            "host='127.0.0.1' port=77 sslmode=disable gssencmode=disable");
  EXPECT_EQ(ParseListenAddress("[::1]:77")->host, "::1");
  for (const char* text : {"tls://0.0.0.0:5", "tls://[::]:5", "tls://192.0.2.1:5", "tls://127.0.0.1:5"}) {
    ASSERT_TRUE(ParseListenAddress(text).ok()) << text;
    EXPECT_TRUE(ParseListenAddress(text)->tls);
  }
  EXPECT_NE(ParseListenAddress("192.0.2.1:5").error().find("tls://ADDRESS:PORT"), std::string::npos);
  EXPECT_NE(ParseListenAddress("tls://db.example:5").error().find("hook_endpoint"), std::string::npos);
  for (const char* text :
       {"", "tls://", "tls://:5", "tls://0.0.0.0", "unix:", "unix:relative/.s.PGSQL.1", "unix:/x/.s.PGSQL.",
        "0.0.0.0:5", "localhost:5", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:x", "127.0.0.1:99999"}) {
    EXPECT_FALSE(ParseListenAddress(text).ok()) << text;
  }
}

TEST(ListenAddressTest, WhereOthersConnect) {
  EXPECT_EQ(ParseEndpoint("db.example:5")->host, "db.example");
  EXPECT_EQ(ParseEndpoint("[2001:db8::1]:5")->host, "2001:db8::1");
  for (const char* text : {"", "db.example", "db.example:0", "0.0.0.0:5", "[::]:5", "a b:5", "a,b:5"}) {
    EXPECT_FALSE(ParseEndpoint(text).ok()) << text;
  }
  const Endpoint endpoint{"db.example", 5};
  EXPECT_TRUE(
      TlsConninfo(endpoint, "/it's")
          .starts_with("host='db.example' port=5 sslmode=verify-full sslrootcert='/it\\'s' sslcert="));
  EXPECT_TRUE(
      TlsConninfo(endpoint, kNoRoots)
          .starts_with("host='db.example' port=5 sslmode=require sslrootcert=/dev/null/none sslcert="));
}

}  // namespace
}  // namespace psp::sp
