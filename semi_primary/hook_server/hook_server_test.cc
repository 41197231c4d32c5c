// The server with real libpq clients.
#include "semi_primary/hook_server/hook_server.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <asio.hpp>
#include <cstdlib>
#include <pqxx/pqxx>

#include "common/hex.h"
#include "semi_primary/hook_server/message_statements.h"
#include "semi_primary/hook_server/proof.h"

namespace psp::sp {
namespace {

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
    server_.reset();
    ::rmdir(directory_.c_str());
  }

  void Start() {
    server_ = std::make_unique<HookServer>(
        options_, HookServer::Handlers{[this](HookConnectionId id, const HookRequest& request) {
                                         if (std::holds_alternative<CommitRequest>(request))
                                           return server_->Reply(id, reply_);
                                         server_->Reply(id, Outcome{true});
                                       },
                                       [](HookConnectionId) {}});
    const auto started = server_->Start();
    ASSERT_TRUE(started.ok()) << started.error();
  }
  std::string Conninfo(const std::string& password = Proof("secret", "login") + "@here") const {
    return options_.address.Conninfo() + " user=psp dbname=psp password=" + password;
  }
  static std::string Ask(pqxx::connection& connection, const std::string& query) {
    pqxx::nontransaction tx(connection);
    return tx.exec1(query)[0].as<std::string>();
  }

  std::string directory_;
  HookServer::Options options_;
  FrontAnswer reply_ = Committed{42};
  std::unique_ptr<HookServer> server_;
};

const std::string kTx = "00112233-4455-6677-8899-aabbccddeeff";

// A commit request without rows, or an outcome request.
std::string Commit() {
  const std::string head = kTx + " 1 10 -";
  return "commit " + head + " " + Proof("secret", head + Sha256("")) + " ";
}
std::string Outcome() { return "outcome " + kTx + " " + Proof("secret", "outcome " + kTx); }

TEST_F(HookServerTest, LibpqCommits) {
  Start();
  pqxx::connection connection(Conninfo());
  EXPECT_EQ(Ask(connection, "ping"), "ok");
  pqxx::nontransaction(connection).exec0(Commit());
  EXPECT_EQ(Ask(connection, Outcome()), "committed");
}

TEST_F(HookServerTest, LibpqAsksForTheStatementsOfAMessage) {
  options_.write_set_bytes_max = 4 << 20;
  Start();
  pqxx::connection connection(Conninfo());
  const auto ask = [&](const std::string& message) {
    const std::string proof = Proof("secret", "statements " + Sha256(message));
    return Ask(connection, "statements " + proof + " " + EncodeHex(message));
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

TEST_F(HookServerTest, ErrorsReachLibpq) {
  reply_ = UserError{"40001", "conflict", "somewhere", "retry"};
  Start();
  pqxx::connection connection(Conninfo());
  EXPECT_THROW(Ask(connection, Commit()), pqxx::serialization_failure);
  EXPECT_EQ(Ask(connection, "ping"), "ok");
}

TEST_F(HookServerTest, TooLargeWriteSetReachesLibpqAsAnError) {
  Start();
  pqxx::connection connection(Conninfo());
  try {
    Ask(connection, Commit() + std::string(40 << 20, '0'));
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

TEST_F(HookServerTest, SocketOfALivingServerIsNotRemoved) {
  Start();
  HookServer other(options_, {});
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
    const auto started = HookServer(options, {}).Start();
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
  for (const char* text : {"", "unix:", "unix:relative/.s.PGSQL.1", "unix:/x/.s.PGSQL.", "0.0.0.0:5",
                           "localhost:5", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:x", "127.0.0.1:99999"}) {
    EXPECT_FALSE(ParseListenAddress(text).ok()) << text;
  }
}

}  // namespace
}  // namespace psp::sp
