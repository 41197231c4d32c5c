// The fixture of the semi-primary's integration test: a database of its own, the daemon in this process, and
// a fake primary.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <libpq-fe.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <future>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/pg_binary.h"
#include "semi_primary/hook_server/listen_address.h"
#include "semi_primary/server.h"
#include "semi_primary/testing/fake_primary.h"

namespace psp::sp {

class SemiPrimaryTest : public testing::Test {
 protected:
  // What an application is told. No SQLSTATE: all went well.
  struct Told {
    std::string sqlstate;
    std::string text;  // with DETAIL and HINT
  };
  using Answer = std::future<Told>;

  void SetUp() override {
    const char* dsn = std::getenv("PSP_TEST_DSN");
    const char* dir = std::getenv("PSP_TEST_DIR");
    if (dsn == nullptr || dir == nullptr) {
      std::cerr
          << "\n*** SKIPPED: use tools/with_postgres.sh semi_primary/testing/run_integration_test.sh ***\n\n";
      GTEST_SKIP();
    }
    const std::string number = std::to_string(++databases_);
    pqxx::connection admin(std::string(dsn) + " dbname=postgres");
    pqxx::nontransaction(admin).exec("CREATE DATABASE sp" + number + " TEMPLATE adopted");
    database_ = std::string(dsn) + " dbname=sp" + number;
    hook_listen_ = std::string("unix:") + dir + "/.s.PGSQL." + std::to_string(6000 + databases_);
    table_id_ = Sql("SELECT table_id FROM psp.tables WHERE schema_name <> 'psp'")[0][0].as<std::uint32_t>();
    guard_id_ = Sql("SELECT guards -> 0 ->> 'guard_id' FROM psp.tables WHERE schema_name <> 'psp'")[0][0]
                    .as<std::uint32_t>();
    Start({});
    primary_.Enter();
  }
  void TearDown() override {
    if (server_) Stop();
  }

  using Values = std::map<std::string, std::string>;

  // Settings with long timeouts, except those in `more`.
  void Start(const Values& more) {
    SemiPrimarySettings settings;
    Values given = {{"name", "one"},
                    {"database", database_},
                    {"primary", primary_.endpoint()},
                    {"hook_listen", hook_listen_},
                    {"commit_timeout_ms", "60000"},
                    {"disconnected_grace_ms", "60000"},
                    {"heartbeat_timeout_ms", "60000"},
                    {"ack_interval_ms", "20"}};
    for (const auto& [key, value] : more) given[key] = value;
    std::vector<std::string> words = {"test"};
    for (const auto& [key, value] : given) words.insert(words.end(), {"--" + key, value});
    std::vector<const char*> argv;
    for (const std::string& word : words) argv.push_back(word.c_str());
    Settings declared = DeclareSemiPrimarySettings(&settings);
    ASSERT_EQ(declared.Load(static_cast<int>(argv.size()), argv.data(), std::cout, std::cerr),
              Settings::Outcome::kRun);
    const auto address = ParseListenAddress(hook_listen_);
    ASSERT_TRUE(address.ok()) << address.error();
    housekeeper_ = std::make_unique<Housekeeper>(database_, false, 3600);
    const auto identity = housekeeper_->Claim("one", address->Conninfo());
    ASSERT_TRUE(identity.ok()) << identity.error().what;
    server_ = std::make_unique<Server>(settings, *identity, housekeeper_.get());
    const auto started = server_->Start();
    ASSERT_TRUE(started.ok()) << started.error();
    thread_ = std::thread([this] { exit_code_ = server_->Run(*signals_); });
  }
  void Stop() {
    kill(getpid(), SIGTERM);
    EXPECT_EQ(Join(), 0);
  }
  // The exit code of a daemon that ends.
  int Join() {
    thread_.join();
    server_.reset();
    housekeeper_.reset();
    primary_.ItHasEnded();
    return exit_code_;
  }
  void Restart(const Values& more) {
    Stop();
    Start(more);
    primary_.Enter();
  }

  pqxx::result Sql(const std::string& sql) {
    pqxx::connection connection(database_);
    return pqxx::nontransaction(connection).exec(sql);
  }
  std::int64_t Stock(int id) {
    return Sql("SELECT stock FROM item WHERE id = " + std::to_string(id))[0][0].as<std::int64_t>();
  }
  // An application's transaction of one statement.
  Answer Begin(const std::string& sql) {
    return std::async(std::launch::async, [database = database_, sql]() -> Told {
      const std::unique_ptr<PGconn, decltype(&PQfinish)> connection(PQconnectdb(database.c_str()), &PQfinish);
      const std::unique_ptr<PGresult, decltype(&PQclear)> result(PQexec(connection.get(), sql.c_str()),
                                                                 &PQclear);
      const char* sqlstate = PQresultErrorField(result.get(), PG_DIAG_SQLSTATE);
      const std::string text = PQerrorMessage(connection.get());
      return {sqlstate != nullptr ? sqlstate : text, text};
    });
  }
  Answer Raise(int id) { return Begin("UPDATE item SET stock = stock + 1 WHERE id = " + std::to_string(id)); }

  proto::Transaction Own(const std::string& tx_id, GlobalT global_t) {
    proto::Transaction transaction;
    transaction.set_global_t(global_t);
    transaction.set_tx_id(tx_id);
    transaction.set_sp_id(1);
    return transaction;
  }
  // Another semi-primary sets an item's stock.
  proto::Transaction Remote(GlobalT global_t, int id, int stock) {
    proto::Transaction transaction;
    transaction.set_global_t(global_t);
    transaction.set_tx_id(std::string(TxId::kSize, static_cast<char>(global_t)));
    transaction.set_sp_id(2);
    proto::WriteSet rows;
    rows.set_catalog_version(1);
    proto::Row* row = rows.add_rows();
    row->set_table_id(table_id_);
    row->set_key(Key(id));
    row->set_image(Record(std::to_string(id) + ", " + std::to_string(stock) + ", 'remote " +
                          std::to_string(id) + "'::text"));
    transaction.set_write_set(rows.SerializeAsString());
    return transaction;
  }
  std::string Key(int id) { return Record(std::to_string(id)); }
  std::string Record(const std::string& values) {
    const auto bytes = Sql("SELECT record_send(ROW(" + values + "))");
    return DecodeByteaText(bytes[0][0].c_str()).value_or("");
  }

  // The status says so; the housekeeper writes once a second.
  void AwaitState(const std::string& state) {
    const std::int64_t until_us = MonotonicUs() + FakePrimary::kPatienceMs * 1000;
    while (MonotonicUs() < until_us) {
      if (Sql("SELECT state FROM psp.status")[0][0].as<std::string>() == state) return;
    }
    ADD_FAILURE() << "the semi-primary is not " << state;
  }

  // The daemon serves as before: a local commit, and one of another semi-primary.
  void ExpectAllIsWell() {
    const std::int64_t before = Stock(1);
    Answer answer = Raise(1);
    const std::string tx_id = primary_.AwaitCertify().tx_id();
    const GlobalT next = primary_.closed_t() + 1;
    primary_.Commit(tx_id, next);
    const Told told = answer.get();
    EXPECT_EQ(told.sqlstate, "") << told.text;
    primary_.Publish({Own(tx_id, next), Remote(next + 1, 5, static_cast<int>(next))});
    primary_.AwaitAck(next + 1);
    EXPECT_EQ(Stock(1), before + 1);
    EXPECT_EQ(Stock(5), next);
  }

 public:
  static inline StopSignals* signals_ = nullptr;

 protected:
  static inline int databases_ = 0;
  FakePrimary primary_{7};
  std::string database_;
  std::string hook_listen_;
  std::uint32_t table_id_ = 0;
  std::uint32_t guard_id_ = 0;
  std::unique_ptr<Housekeeper> housekeeper_;
  std::unique_ptr<Server> server_;
  std::thread thread_;
  int exit_code_ = -1;
};

}  // namespace psp::sp
