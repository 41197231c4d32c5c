// The fixture of the primary's integration test: a database of its own and a server in this process.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/pg_session.h"
#include "embedded/primary_schema_sql.h"
#include "primary/server.h"
#include "primary/testing/fake_sp.h"

namespace psp::primary {

// As semi-primary 1 makes them (sql/semi_primary/install/semi_primary.sql: psp.transaction_uuid).
inline TxId Id(int number) {
  std::string bytes(TxId::kSize, '\0');
  bytes[4] = static_cast<char>(number >> 8);
  bytes[5] = static_cast<char>(number);
  bytes[6] = bytes[8] = '\x80';
  bytes[15] = 1;
  return *TxId::FromBytes(bytes);
}

inline proto::WriteSet Rows(const std::vector<std::pair<std::string, std::optional<std::string>>>& rows,
                            std::uint32_t table_id = 1) {
  proto::WriteSet write_set;
  write_set.set_catalog_version(1);
  for (const auto& [key, image] : rows) {
    proto::Row* row = write_set.add_rows();
    row->set_table_id(table_id);
    row->set_key(key);
    row->set_deleted(!image);
    if (image) row->set_image(*image);
  }
  return write_set;
}

class PrimaryTest : public testing::Test {
 protected:
  void SetUp() override {
    const char* dsn = std::getenv("PSP_TEST_DSN");
    if (dsn == nullptr) {
      std::cerr << "\n*** SKIPPED: PSP_TEST_DSN is not set; use tools/with_postgres.sh ***\n\n";
      GTEST_SKIP();
    }
    const std::string name = "psp_it_" + std::to_string(getpid()) + "_" + std::to_string(++databases_);
    pqxx::connection admin(dsn);
    pqxx::nontransaction(admin).exec("CREATE DATABASE " + name);
    settings_ = Defaults();
    settings_.database = std::string(dsn) + " dbname=" + name;
    settings_.hear_ms = 0;  // a test has the semi-primaries that it needs
    std::stringstream sql;
    sql << sql::kSchema;
    sql << "INSERT INTO psp.semi_primaries (name, acked_t) VALUES ('a', 0), ('b', 0), ('c', -1);"
           "INSERT INTO psp.tables VALUES (1, 'public', 't', '[]', '[]', '[{\"guard_id\": 2}]');";
    if (HasModule()) sql << sql::kDaemonRole << ";" << sql::kCertifyModule;
    Sql(sql.str());
    Start();
  }
  // Whether the server has psp_certify.
  static bool HasModule() { return std::getenv("PSP_TEST_MODULE") != nullptr; }

  void TearDown() override {
    if (!server_) return;
    Stop();
    ExpectAllIsWrittenDown();
  }
  // Which numbers were decided, committed or not.
  void ExpectAllIsWrittenDown() {
    std::vector<NumberRange> batches;
    for (const pqxx::row& row : Sql("SELECT first_t, last_t FROM psp.decided")) {
      batches.push_back({row[0].as<GlobalT>(), row[1].as<GlobalT>()});
    }
    const auto settled_t = Sql("SELECT settled_t FROM psp.log_start")[0][0].as<GlobalT>();
    const auto newest_t =
        Sql("SELECT coalesce(max(global_t), 0) FROM psp.replication_log")[0][0].as<GlobalT>();
    EXPECT_GE(UnbrokenUpTo(settled_t, batches), newest_t);
  }

  static PrimarySettings Defaults() {
    PrimarySettings settings;
    Settings declared = DeclarePrimarySettings(&settings);
    const char* argv[] = {"test", "--database", "x", "--listen", "tcp://127.0.0.1:*"};
    EXPECT_EQ(declared.Load(5, argv, std::cout, std::cerr), Settings::Outcome::kRun);
    return settings;
  }

  void Start(int tick_ms = Server::kTickMs) {
    auto state = TakeOver(settings_.database);
    ASSERT_TRUE(state.ok()) << state.error().what;
    epoch_ = state->epoch;
    cluster_id_ = state->cluster_id;
    server_ = std::make_unique<Server>(settings_, std::move(*state), signals_, tick_ms);
    thread_ = std::thread([this] { stopped_by_signal_ = server_->Run() == Server::End::kStopped; });
  }
  void Stop() {
    kill(getpid(), SIGTERM);
    thread_.join();
    EXPECT_TRUE(stopped_by_signal_);
    server_.reset();
  }

  pqxx::result Sql(const std::string& sql) {
    pqxx::connection connection(settings_.database);
    return pqxx::nontransaction(connection).exec(sql);
  }

  FakeSp Sp(SpId sp_id, std::uint64_t incarnation = 1) {
    return FakeSp(server_->endpoint(), cluster_id_, sp_id, std::string(1, static_cast<char>('a' + sp_id - 1)),
                  incarnation);
  }
  // The backends of the executors' sessions.
  static constexpr const char* kExecutors =
      "SELECT pid FROM pg_stat_activity"
      " WHERE application_name LIKE 'psp-primary executor%' AND datname = current_database()";
  pqxx::result EndExecutors() {
    return Sql("SELECT pg_terminate_backend(pid) FROM (" + std::string(kExecutors) + ") AS executors");
  }
  // Greets, and begins to stream from there.
  void Enter(FakeSp& sp, GlobalT from) {
    sp.SayHello(from);
    const auto welcome = sp.Next();
    ASSERT_TRUE(welcome && welcome->has_welcome()) << (welcome ? welcome->ShortDebugString() : "silence");
    EXPECT_FALSE(welcome->welcome().say_hello());
    sp.RequestStream(from);
  }
  proto::Replicate NextReplicate(FakeSp& sp) {
    const auto message = sp.Next();
    EXPECT_TRUE(message && message->has_replicate()) << (message ? message->ShortDebugString() : "silence");
    return message ? message->replicate() : proto::Replicate();
  }
  proto::Decision NextDecision(FakeSp& sp) {
    while (auto message = sp.Next()) {
      if (message->has_decision()) return message->decision();
    }
    ADD_FAILURE() << "no decision";
    return {};
  }
  proto::HoldReply NextHoldReply(FakeSp& sp) {
    while (auto message = sp.Next()) {
      if (message->has_hold_reply()) return message->hold_reply();
    }
    ADD_FAILURE() << "no answer to the hold";
    return {};
  }
  proto::Decision Decide(FakeSp& sp, int id, GlobalT watermark, const proto::WriteSet& rows,
                         const std::vector<GlobalT>& seen = {}, const proto::KeyUses& uses = {}) {
    sp.Certify(Id(id), watermark, rows, seen, uses);
    return NextDecision(sp);
  }
  // The answer to a question; what comes before it is dropped.
  proto::OutcomeReply Outcome(FakeSp& sp, int id) {
    proto::ToPrimary ask;
    ask.mutable_outcome_request()->set_tx_id(Id(id).ToBytes());
    sp.Send(ask);
    while (auto message = sp.Next()) {
      if (message->has_outcome_reply()) return message->outcome_reply();
    }
    ADD_FAILURE() << "no outcome";
    return {};
  }

 public:
  static inline StopSignals* signals_ = nullptr;

 protected:
  static inline int databases_ = 0;
  PrimarySettings settings_;
  std::string cluster_id_;
  Epoch epoch_ = 0;
  std::unique_ptr<Server> server_;
  std::thread thread_;
  bool stopped_by_signal_ = false;
};

}  // namespace psp::primary
