// The whole primary against a real PostgreSQL, with semi-primaries that are only sockets.
// Run by tools/with_postgres.sh.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "common/pg_binary.h"
#include "embedded/constants.h"
#include "primary/certify/batch_statement.h"
#include "primary/testing/primary_fixture.h"

namespace psp::primary {
namespace {

TEST_F(PrimaryTest, CommitIsDurableDecidedAndPublishedInThatOrder) {
  FakeSp a = Sp(1), b = Sp(2);
  Enter(a, 0);
  Enter(b, 0);
  EXPECT_EQ(NextReplicate(a).closed_t(), 0);
  EXPECT_EQ(NextReplicate(b).closed_t(), 0);
  const auto rows = Rows({{"k", "image"}, {"gone", std::nullopt}});
  a.Certify(Id(1), 0, rows);
  const auto first = a.Next();
  ASSERT_TRUE(first && first->has_decision());
  EXPECT_EQ(first->decision().global_t(), 1);
  const auto own = NextReplicate(a);
  EXPECT_EQ(own.transactions(0).global_t(), 1);
  EXPECT_FALSE(own.transactions(0).has_write_set());
  const auto remote = NextReplicate(b);
  EXPECT_EQ(remote.from_t(), 0);
  EXPECT_EQ(remote.closed_t(), 1);
  EXPECT_EQ(remote.transactions(0).write_set(), rows.SerializeAsString());
  EXPECT_EQ(remote.transactions(0).sp_id(), 1U);
  const auto data = Sql("SELECT key, global_t, sp_id, deleted, image FROM psp.data ORDER BY key");
  ASSERT_EQ(data.size(), 2U);
  EXPECT_EQ(DecodeByteaText(data[1][0].c_str()), "k");
  EXPECT_EQ(DecodeByteaText(data[1][4].c_str()), "image");
  EXPECT_TRUE(data[0][3].as<bool>());
}

TEST_F(PrimaryTest, ConflictNamesKeyAndWinnerAndSeenIsRespected) {
  FakeSp a = Sp(1), b = Sp(2);
  Enter(a, 0);
  Enter(b, 0);
  const GlobalT winner = Decide(a, 1, 0, Rows({{"k", "1"}})).global_t();
  ASSERT_GT(winner, 0);
  const auto lost = Decide(b, 2, 0, Rows({{"j", "2"}, {"k", "2"}}));
  ASSERT_TRUE(lost.has_conflict()) << lost.ShortDebugString();
  EXPECT_EQ(lost.conflict().key(), "k");
  EXPECT_EQ(lost.conflict().table_id(), 1U);
  EXPECT_EQ(lost.conflict().winner_t(), winner);
  EXPECT_EQ(lost.conflict().winner_sp_id(), 1U);
  EXPECT_GT(Decide(a, 3, 0, Rows({{"k", "3"}}), {winner}).global_t(), winner);  // seen
  EXPECT_TRUE(Decide(a, 4, 0, Rows({{"k", "4"}}), {winner}).has_conflict());    // not the newest
  EXPECT_GT(Decide(b, 5, 3, Rows({{"k", "5"}})).global_t(), 0) << "below the watermark";
  EXPECT_EQ(Sql("SELECT FROM psp.data WHERE key = 'j'").size(), 0U);
  EXPECT_EQ(Sql("SELECT FROM psp.tx_log").size(), 5U);
  // The repeated request of a loser gets the same conflict.
  EXPECT_EQ(Decide(b, 2, 100, Rows({{"k", "2"}})).conflict().SerializeAsString(),
            lost.conflict().SerializeAsString());
}

// Views mode: the thesis's Algorithm 1.
TEST_F(PrimaryTest, AKnownVersionDecidesInsteadOfTheSnapshot) {
  FakeSp a = Sp(1), b = Sp(2);
  Enter(a, 0);
  Enter(b, 0);
  const auto replacing = [](GlobalT known_t) {
    proto::WriteSet rows = Rows({{"k", "new"}});
    rows.mutable_rows(0)->set_global_t(known_t);
    return rows;
  };
  const GlobalT first = Decide(a, 1, 0, Rows({{"k", "1"}})).global_t();
  const GlobalT second = Decide(b, 2, 0, replacing(first)).global_t();
  EXPECT_GT(second, first) << "the snapshot is older, the row is not";
  const auto lost = Decide(a, 3, second, replacing(first));
  ASSERT_TRUE(lost.has_conflict()) << "the snapshot is newer, the row is not";
  EXPECT_EQ(lost.conflict().winner_t(), second);
  EXPECT_TRUE(Decide(a, 4, 0, replacing(first), {second}).has_conflict());
  EXPECT_GT(Decide(a, 5, 0, replacing(second)).global_t(), second);
}

TEST_F(PrimaryTest, RepeatedRequestGetsTheSameAnswerAndIsPublishedOnce) {
  FakeSp a = Sp(1), b = Sp(2);
  Enter(a, 0);
  Enter(b, 0);
  NextReplicate(b);
  EXPECT_EQ(Decide(a, 1, 0, Rows({{"k", "1"}})).global_t(), 1);
  EXPECT_EQ(Decide(a, 1, 0, Rows({{"k", "1"}})).global_t(), 1);
  const GlobalT second = Decide(a, 2, 1, Rows({{"l", "1"}})).global_t();
  EXPECT_EQ(NextReplicate(b).transactions(0).global_t(), 1);
  const auto next = NextReplicate(b);
  ASSERT_EQ(next.transactions_size(), 1);
  EXPECT_EQ(next.transactions(0).global_t(), second);
}

TEST_F(PrimaryTest, ManyAtOnceOnTheSameKeyGiveOneWinner) {
  FakeSp a = Sp(1);
  Enter(a, 0);
  for (int i = 1; i <= 50; ++i) a.Certify(Id(i), 0, Rows({{"k", std::to_string(i)}}));
  int winners = 0;
  for (int i = 1; i <= 50; ++i) {
    const auto decision = NextDecision(a);
    if (decision.outcome_case() == proto::Decision::kGlobalT) ++winners;
    EXPECT_EQ(decision.error(), "");
  }
  EXPECT_EQ(winners, 1);
}

// Nothing else happens then that would make the loop turn once more.
TEST_F(PrimaryTest, WhatIsReleasedByTimeIsDecidedInTheSameTurn) {
  Stop();
  constexpr int kNever = 3'600'000;
  Start(kNever);
  FakeSp a = Sp(1);
  FakeSp b = Sp(2);
  Enter(a, 0);
  Enter(b, 0);
  proto::ToPrimary hold;
  hold.mutable_hold()->set_hold_id(1);
  hold.mutable_hold()->set_transaction(700);
  hold.mutable_hold()->add_table_ids(1);
  hold.mutable_hold()->set_timeout_ms(300);
  a.Send(hold);
  EXPECT_FALSE(NextHoldReply(a).ended());
  b.Certify(Id(1), 0, Rows({{"k", "v"}}));
  EXPECT_TRUE(NextHoldReply(a).ended());  // its heartbeats turn the loop until the time is over
  b.set_epoch(0);                         // sends no heartbeats
  EXPECT_GT(NextDecision(b).global_t(), 0);
}

TEST_F(PrimaryTest, OutcomeIsMadeDefinite) {
  FakeSp a = Sp(1);
  Enter(a, 0);
  EXPECT_EQ(Outcome(a, 9).global_t(), 0);
  const auto late = Decide(a, 9, 0, Rows({{"k", "1"}}));
  EXPECT_FALSE(late.error().empty());
  const GlobalT committed = Decide(a, 10, 0, Rows({{"k", "1"}})).global_t();
  EXPECT_EQ(Outcome(a, 10).global_t(), committed);
}

TEST_F(PrimaryTest, OutcomeNamesTheConflict) {
  FakeSp a = Sp(1);
  Enter(a, 0);
  Decide(a, 1, 0, Rows({{"k", "1"}}));
  const proto::Decision lost = Decide(a, 2, 0, Rows({{"k", "2"}}));
  EXPECT_EQ(Outcome(a, 2).conflict().SerializeAsString(), lost.conflict().SerializeAsString());
}

TEST_F(PrimaryTest, BadInputIsRefusedAndNobodyElseIsDisturbed) {
  FakeSp a = Sp(1);
  Enter(a, 0);
  a.SendRaw("\xff\xff nonsense");
  EXPECT_NE(Decide(a, 1, 0, Rows({{"k", "1"}}, 99)).error().find("table_id 99"), std::string::npos);
  EXPECT_NE(Decide(a, 2, 0, Rows({{"k", "1"}, {"k", "2"}})).error().find("twice"), std::string::npos);
  EXPECT_NE(Decide(a, 3, 0, Rows({{"", "1"}})).error().find("without a key"), std::string::npos);
  EXPECT_NE(Decide(a, 4, 0, Rows({{std::string(1 << 20, 'k'), "1"}})).error(),
            "");  // no index row can hold it
  proto::ToPrimary broken;
  broken.mutable_certify()->set_tx_id(Id(5).ToBytes());
  broken.mutable_certify()->set_write_set("\xff\xff");
  a.Send(broken);
  EXPECT_NE(NextDecision(a).error().find("malformed"), std::string::npos);
  EXPECT_GT(Decide(a, 6, 0, Rows({{"k", "1"}, {"g", std::nullopt}})).global_t(), 0);
  // A table that was adopted just now is found.
  Sql("INSERT INTO psp.tables VALUES (7, 'public', 'u', '[]', '[]')");
  EXPECT_GT(Decide(a, 7, 0, Rows({{"k", "1"}}, 7)).global_t(), 0);
}

TEST_F(PrimaryTest, WrongEpochOrUnknownPeerMustSayHello) {
  FakeSp a = Sp(1);
  a.set_epoch(epoch_);
  a.Certify(Id(1), 0, Rows({{"k", "1"}}));
  auto answer = a.Next();
  ASSERT_TRUE(answer && answer->has_welcome());
  EXPECT_TRUE(answer->welcome().say_hello());
  Enter(a, 0);
  NextReplicate(a);
  a.set_epoch(epoch_ + 1);
  a.Certify(Id(1), 0, Rows({{"k", "1"}}));
  answer = a.Next();
  ASSERT_TRUE(answer && answer->has_welcome());
  EXPECT_TRUE(answer->welcome().say_hello());
  EXPECT_EQ(Sql("SELECT FROM psp.tx_log").size(), 0U);
}

TEST_F(PrimaryTest, SecondDaemonOfAnSpAndStrangersAreRefused) {
  FakeSp a = Sp(1);
  Enter(a, 0);
  FakeSp twin = Sp(1, 2);
  twin.SayHello(0);
  auto answer = twin.Next();
  ASSERT_TRUE(answer && answer->has_refused());
  EXPECT_EQ(answer->refused().reason(), proto::Refused::DUPLICATE_SP);
  FakeSp stranger(server_->endpoint(), std::string(16, 'x'), 1, "a", 3);
  stranger.SayHello(0);
  answer = stranger.Next();
  ASSERT_TRUE(answer && answer->has_refused());
  EXPECT_EQ(answer->refused().reason(), proto::Refused::WRONG_CLUSTER);
  FakeSp unknown = Sp(4);
  unknown.SayHello(0);
  answer = unknown.Next();
  ASSERT_TRUE(answer && answer->has_refused());
  EXPECT_EQ(answer->refused().reason(), proto::Refused::UNKNOWN_SP);
  Sql("INSERT INTO psp.semi_primaries (name) VALUES ('d')");
  Enter(unknown, 0);
  EXPECT_GT(Decide(a, 1, 0, Rows({{"k", "1"}})).global_t(), 0);
}

TEST_F(PrimaryTest, JoinGetsTheLiveRowsThenTheStream) {
  FakeSp a = Sp(1);
  Enter(a, 0);
  proto::WriteSet rows;
  for (int i = 0; i < 10; ++i) rows.MergeFrom(Rows({{"k" + std::to_string(i), "image"}}));
  rows.MergeFrom(Rows({{"guard", std::nullopt}}, 2));
  rows.mutable_rows(10)->set_deleted(false);
  rows.mutable_rows(10)->set_access(proto::ACCESS_GUARD);
  Decide(a, 1, 0, rows);
  const GlobalT last = Decide(a, 2, 1, Rows({{"k3", std::nullopt}})).global_t();
  FakeSp c = Sp(3);
  c.SayHello(-1);
  ASSERT_TRUE(c.Next()->has_welcome());
  c.RequestStream(-1, true);
  std::vector<std::string> keys;
  for (bool done = false; !done;) {
    const auto message = c.Next();
    ASSERT_TRUE(message && message->has_copy_chunk());
    const auto& chunk = message->copy_chunk();
    EXPECT_EQ(chunk.snapshot_t(), last);
    EXPECT_EQ(chunk.catalog_version(), 1U);
    for (const auto& row : chunk.rows()) keys.push_back(row.key());
    EXPECT_EQ(chunk.rows_done(), static_cast<std::int64_t>(keys.size()));
    done = chunk.last();
  }
  EXPECT_THAT(keys, testing::ElementsAre("k0", "k1", "k2", "k4", "k5", "k6", "k7", "k8", "k9"));
  Decide(a, 3, last, Rows({{"k3", "back"}}));
  const auto next = NextReplicate(c);
  EXPECT_EQ(next.from_t(), last);
  EXPECT_EQ(next.transactions_size(), 1);
}

TEST_F(PrimaryTest, LogIsTruncatedToWhatAllHaveAndOldSpsMustJoinAgain) {
  Stop();
  settings_.log_truncation_interval_ms = 100;
  Start();
  FakeSp a = Sp(1), b = Sp(2);
  Enter(a, 0);
  Enter(b, 0);
  GlobalT last = 0;
  for (int i = 1; i <= 5; ++i) last = Decide(a, i, 0, Rows({{"k" + std::to_string(i), "x"}})).global_t();
  a.Ack(last);
  b.Ack(2);
  const auto log_begin = [this] { return Sql("SELECT truncated_t FROM psp.log_start")[0][0].as<GlobalT>(); };
  while (log_begin() < 2) ASSERT_TRUE(a.Next(300) || b.Next(300) || true);
  EXPECT_EQ(log_begin(), 2);
  EXPECT_EQ(Sql("SELECT FROM psp.replication_log").size(), 3U);
  proto::ToPrimary goodbye;
  goodbye.mutable_goodbye();
  b.Send(goodbye);
  FakeSp late = Sp(2, 2);
  std::optional<proto::ToSemiPrimary> answer;
  do {  // the goodbye and the report of the truncation may come to the main thread a moment later
    late.SayHello(1);
    answer = late.Next();
    ASSERT_TRUE(answer);
  } while (answer->has_welcome() || answer->refused().reason() == proto::Refused::DUPLICATE_SP);
  EXPECT_EQ(answer->refused().reason(), proto::Refused::LOG_TRUNCATED) << answer->ShortDebugString();
}

TEST_F(PrimaryTest, LostSessionsInTheMiddleLoseNothing) {
  FakeSp a = Sp(1);
  Enter(a, 0);
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < 20; ++i) {
      const int id = 1000 + round * 20 + i;
      a.Certify(Id(id), 0, Rows({{"k" + std::to_string(id), "x"}}));
    }
    Sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'psp-primary%'"
        " AND datname = current_database()");
  }
  for (int i = 0; i < 200; ++i) EXPECT_GT(NextDecision(a).global_t(), 0);
  EXPECT_EQ(Sql("SELECT FROM psp.replication_log").size(), 200U);
  EXPECT_EQ(Sql("SELECT FROM psp.tx_log").size(), 200U);
  EXPECT_EQ(Sql("SELECT FROM psp.data").size(), 200U);
}

TEST_F(PrimaryTest, SessionsThatEndWhileTheyAreIdleAreReplaced) {
  FakeSp a = Sp(1);
  Enter(a, 0);
  for (int id = 1; id <= 3; ++id) {
    EXPECT_GT(Decide(a, id, 0, Rows({{"k" + std::to_string(id), "v"}})).global_t(), 0);
    EXPECT_FALSE(EndExecutors().empty());
  }
  EXPECT_GT(Decide(a, 4, 0, Rows({{"k4", "v"}})).global_t(), 0);
}

// The main loop hands it to the executor's thread, and has the session back afterwards.
TEST_F(PrimaryTest, LargeBatchesAreDecidedBetweenSmallOnes) {
  FakeSp a = Sp(1);
  Enter(a, 0);
  GlobalT last_t = 0;
  for (int id = 1; id <= 12; ++id) {
    const std::string image(id % 2 == 0 ? 1 << 20 : 10, 'v');
    const GlobalT global_t = Decide(a, id, last_t, Rows({{"k", image}})).global_t();
    EXPECT_GT(global_t, last_t);
    last_t = global_t;
  }
}

// Both executors' backends, which do nothing from now on.
class StoppedBackends {
 public:
  explicit StoppedBackends(const pqxx::result& pids) {
    for (const pqxx::row& row : pids) pids_.push_back(row[0].as<pid_t>());
    SendAll(SIGSTOP);
  }
  ~StoppedBackends() { GoOn(); }
  StoppedBackends(StoppedBackends&&) = default;
  StoppedBackends(const StoppedBackends&) = delete;
  StoppedBackends& operator=(const StoppedBackends&) = delete;

  void GoOn() {
    SendAll(SIGCONT);
    pids_.clear();
  }

 private:
  void SendAll(int signal) {
    for (const pid_t pid : pids_) EXPECT_EQ(kill(pid, signal), 0);
  }

  std::vector<pid_t> pids_;
};

// Fits no socket's buffer, and the main loop sends it.
constexpr std::size_t kMuch = 250 << 10;

class HalfSentBatchTest : public PrimaryTest {
 protected:
  // The second transaction of `a` is on its way to backends that read nothing. The main loop goes on: `b` enters.
  StoppedBackends SendHalf(FakeSp& a, FakeSp& b) {
    Enter(a, 0);
    EXPECT_GT(Decide(a, 1, 0, Rows({{"k1", "v"}})).global_t(), 0);
    StoppedBackends stopped(Sql(kExecutors));
    a.Certify(Id(2), 0, Rows({{"k2", std::string(kMuch, 'v')}}));
    Enter(b, 0);
    return stopped;
  }
};

TEST_F(HalfSentBatchTest, WhoDoesNotReadABatchHoldsUpNobody) {
  FakeSp a = Sp(1);
  FakeSp b = Sp(2);
  StoppedBackends stopped = SendHalf(a, b);
  stopped.GoOn();
  EXPECT_GT(NextDecision(a).global_t(), 0);
}

TEST_F(HalfSentBatchTest, ASessionThatIsLostBeforeItHasAllOfABatchLosesNothing) {
  FakeSp a = Sp(1);
  FakeSp b = Sp(2);
  StoppedBackends stopped = SendHalf(a, b);
  EndExecutors();
  stopped.GoOn();
  EXPECT_GT(NextDecision(a).global_t(), 0);
  EXPECT_EQ(Sql("SELECT FROM psp.tx_log").size(), 2U);
}

TEST_F(PrimaryTest, ABatchThatIsOutIsDecidedBeforeTheDaemonStops) {
  FakeSp a = Sp(1);
  Enter(a, 0);
  pqxx::connection holder(settings_.database);
  pqxx::work lock(holder);
  lock.exec("LOCK TABLE psp.data");
  a.Certify(Id(1), 0, Rows({{"k", "v"}}));
  while (Sql(std::string(kExecutors) + " AND wait_event_type = 'Lock'").empty()) {
  }
  kill(getpid(), SIGTERM);
  a.SayHello(0);
  ASSERT_TRUE(a.Next());  // the loop has turned, and knows of the signal
  lock.abort();
  EXPECT_GT(NextDecision(a).global_t(), 0);
  thread_.join();
  EXPECT_TRUE(stopped_by_signal_);
  server_.reset();
  ExpectAllIsWrittenDown();
}

TEST_F(PrimaryTest, OneDaemonForEachDatabase) {
  const auto second = TakeOver(settings_.database);
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.error().what.find("another psp-primary"), std::string::npos);
  EXPECT_EQ(second.error().kind, StartProblem::Kind::kTaken);
  FakeSp a = Sp(1);
  Enter(a, 0);
  EXPECT_GT(Decide(a, 1, 0, Rows({{"k", "1"}})).global_t(), 0);
}

TEST_F(PrimaryTest, SchemaOfAnotherVersionIsRefusedWithWhatToDo) {
  Stop();
  Sql("UPDATE psp.cluster SET schema_version = 1");
  const auto older = TakeOver(settings_.database);
  ASSERT_FALSE(older.ok());
  EXPECT_EQ(older.error().what, "schema psp has version 1, this daemon needs " +
                                    std::to_string(kPrimarySchemaVersion) + ": run psp primary upgrade");
  Sql("UPDATE psp.cluster SET schema_version = 99");
  const auto newer = TakeOver(settings_.database);
  ASSERT_FALSE(newer.ok());
  EXPECT_EQ(newer.error().what.find("upgrade"), std::string::npos) << newer.error().what;
  EXPECT_EQ(newer.error().kind, StartProblem::Kind::kConfiguration);
  EXPECT_EQ(Sql("SELECT epoch FROM psp.cluster")[0][0].as<Epoch>(), epoch_) << "nothing was begun";
}

TEST_F(PrimaryTest, SessionsAreReadCommittedWhateverTheDatabaseGivesApplications) {
  Sql("DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = %L', "
      "current_database(), 'repeatable read'); END $$");
  PgSession session({.conninfo = settings_.database, .application_name = "isolation", .settings = {}});
  ASSERT_TRUE(session.Connect().ok());
  const auto isolation = session.Autocommit(
      [](pqxx::nontransaction& tx) { return tx.exec1("SHOW transaction_isolation")[0].as<std::string>(); });
  ASSERT_TRUE(isolation.ok());
  EXPECT_EQ(isolation.value(), "read committed");
}

TEST_F(PrimaryTest, StatementsAreNotCompiled) {
  PgSession session({.conninfo = settings_.database, .application_name = "jit", .settings = {}});
  ASSERT_TRUE(session.Connect().ok());
  const auto jit =
      session.Autocommit([](auto& tx) { return tx.exec1("SHOW jit")[0].template as<std::string>(); });
  ASSERT_TRUE(jit.ok()) << jit.error().message;
  EXPECT_EQ(jit.value(), "off");
}

TEST_F(PrimaryTest, BatchPlanReadsTablesByTheirKeysOnly) {
  Sql("INSERT INTO psp.data SELECT 1, int8send(g), 0, 0, false, 'x' FROM generate_series(1, 200000) g; "
      "ANALYZE");
  PgSession session(
      {.conninfo = settings_.database, .application_name = "plan", .settings = BatchSessionSettings()});
  ASSERT_TRUE(session.Connect().ok());
  std::ifstream file(std::string(PSP_SOURCE_DIR) + "/sql/primary/daemon/certify_batch.sql");
  std::stringstream sql;
  sql << file.rdbuf();
  std::string plan;
  const auto explained = session.Autocommit([&](pqxx::nontransaction& tx) {
    tx.exec("PREPARE batch AS " + sql.str());
    std::string nulls = "NULL";
    for (int i = 2; i <= 23; ++i) nulls += ", NULL";
    for (const auto& row : tx.exec("EXPLAIN EXECUTE batch (" + nulls + ")")) {
      plan += row[0].as<std::string>() + "\n";
    }
  });
  ASSERT_TRUE(explained.ok()) << explained.error().message;
  EXPECT_EQ(plan.find("Seq Scan"), std::string::npos) << plan;
  EXPECT_NE(plan.find("Index Scan using data_pkey on data"), std::string::npos) << plan;
  EXPECT_NE(plan.find("hashed SubPlan"), std::string::npos) << plan;
  EXPECT_NE(plan.find("tx_log_pkey"), std::string::npos) << plan;
}

}  // namespace
}  // namespace psp::primary

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  psp::StopSignals signals;  // before any thread
  psp::primary::PrimaryTest::signals_ = &signals;
  return RUN_ALL_TESTS();
}
