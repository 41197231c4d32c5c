// What the primary removes when it has become old, against a real PostgreSQL. Part of
// primary_integration_test.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "embedded/constants.h"
#include "primary/certify/batch_statement.h"
#include "primary/publish/sweeper.h"
#include "primary/testing/primary_fixture.h"

namespace psp::primary {
namespace {

class SweepingTest : public PrimaryTest {
 protected:
  // Everything up to `truncated_t` is acknowledged, and two hours pass, unless `hours` says otherwise.
  void Age(GlobalT truncated_t, int hours = 2) {
    Sql("UPDATE psp.log_start SET clock_ms = clock_ms + 3600000 * " + std::to_string(hours) +
        ", truncated_t = " + std::to_string(truncated_t));
  }
  // Everything that can be removed now. How many pieces it took.
  int Sweep(Sweeper::Retention retention = {86'400, 3600}) {
    PgSession session({.conninfo = settings_.database, .application_name = "sweeper", .settings = {}});
    EXPECT_TRUE(session.Connect().ok());
    Sweeper sweeper(retention);
    int pieces = 0;
    for (bool more = true; more; ++pieces) {
      const auto swept = session.Transaction([&](pqxx::work& tx) { return sweeper.Sweep(tx); });
      EXPECT_TRUE(swept.ok()) << swept.error().message;
      if (!swept.ok()) return pieces;
      more = *swept;
    }
    return pieces;
  }
  std::int64_t Count(const std::string& from) {
    return Sql("SELECT count(*) FROM " + from)[0][0].as<std::int64_t>();
  }
  GlobalT CollectedT() { return Sql("SELECT collected_t FROM psp.log_start")[0][0].as<GlobalT>(); }
};

proto::WriteSet RowAndGuard(const std::string& key, const std::string& guard) {
  proto::WriteSet rows = Rows({{key, "image"}});
  rows.MergeFrom(Rows({{guard, std::nullopt}}, 2));
  rows.mutable_rows(1)->set_deleted(false);
  rows.mutable_rows(1)->set_access(proto::ACCESS_GUARD);
  return rows;
}

TEST_F(SweepingTest, DeletedRowsAndGuardsGoWhenEverybodyHasThem) {
  FakeSp a = Sp(1);
  Enter(a, 0);
  Decide(a, 1, 0, RowAndGuard("stays", "value"));
  const GlobalT deletes = Decide(a, 2, 1, Rows({{"goes", std::nullopt}})).global_t();
  const GlobalT later = Decide(a, 3, 2, Rows({{"later", std::nullopt}})).global_t();
  Sweep();
  EXPECT_EQ(Count("psp.data"), 4) << "nobody has acknowledged anything";
  Age(deletes);
  Sweep();
  EXPECT_EQ(Count("psp.data WHERE key IN ('stays', 'later')"), 2);
  EXPECT_EQ(Count("psp.data"), 2);
  EXPECT_EQ(CollectedT(), deletes);
  Age(later);
  Sweep();
  EXPECT_EQ(Count("psp.data"), 1);
}

TEST_F(SweepingTest, RowsOfDroppedTablesGoInPieces) {
  Stop();  // it sweeps by itself
  Sql("INSERT INTO psp.data SELECT t, int8send(g), 1, 1, g = 1, 'x'"
      "  FROM generate_series(5, 8) t, generate_series(1, 4000) g;"
      "INSERT INTO psp.table_versions VALUES (5, 2, true), (6, 2, false), (7, 3, true), (8, 3, true)");
  EXPECT_EQ(Sweep(), 3);
  EXPECT_EQ(Count("psp.data"), 4000);
  EXPECT_EQ(Count("psp.data WHERE table_id = 6"), 4000);
}

TEST_F(SweepingTest, RowsFromBeforeATableWasEmptiedGoInPieces) {
  Stop();  // it sweeps by itself
  Sql("INSERT INTO psp.data SELECT t, int8send(g), 1 + g % 2, 1, false, 'x'"
      "  FROM generate_series(5, 7) t, generate_series(1, 6000) g;"
      "INSERT INTO psp.emptied_tables VALUES (5, 2), (7, 3)");
  EXPECT_EQ(Sweep(), 5) << "two pieces of each, and a look for more";
  EXPECT_EQ(Count("psp.data WHERE table_id = 5 AND global_t = 2"), 3000);
  EXPECT_EQ(Count("psp.data WHERE table_id = 6"), 6000);
  EXPECT_EQ(Count("psp.data"), 9000);
  EXPECT_EQ(Count("psp.emptied_tables"), 0);
}

// As sql/native/install/requests.sql has it: rows (id, generation), whose smallest ids begin the generations.
TEST_F(SweepingTest, RequestsThatAreForgottenCountAsDeleted) {
  Stop();  // it sweeps by itself
  const std::string requests = std::to_string(kRequestsId);
  const auto add = [&](const std::string& id, const std::string& generation, const std::string& of) {
    Sql("INSERT INTO psp.data SELECT " + requests + ", record_send(ROW(" + id +
        "::uuid)), 1, 1, false, record_send(ROW(" + id + "::uuid, " + generation +
        "::int4, 'role'::text))  FROM " + of);
  };
  const auto begin = [&](int generation) {
    const std::string number = std::to_string(generation);
    add("lpad('" + number + "', 32, '0')", number, "(SELECT) one");
  };
  add("('f' || lpad(g::text, 31, '0'))", "g % 2", "generate_series(1, 12000) g");
  begin(1);
  begin(4);
  PgSession session({.conninfo = settings_.database, .application_name = "sweeper", .settings = {}});
  ASSERT_TRUE(session.Connect().ok());
  Sweeper sweeper({86'400, 3600});
  const auto sweep = [&] {
    int pieces = 0;
    for (bool more = true; more; ++pieces) {
      const auto swept = session.Transaction([&](pqxx::work& tx) { return sweeper.Sweep(tx); });
      EXPECT_TRUE(swept.ok()) << swept.error().message;
      more = swept.ok() && *swept;
    }
    return pieces;
  };
  sweep();
  EXPECT_EQ(Count("psp.data WHERE deleted"), 0) << "four have not begun since the eldest";
  EXPECT_EQ(sweep(), 1) << "it does not look at them all again";
  begin(5);
  EXPECT_EQ(sweep(), 3);
  EXPECT_EQ(Count("psp.data WHERE deleted AND image IS NULL"), 6000);
  begin(6);
  sweep();
  EXPECT_EQ(Count("psp.data WHERE deleted"), 12001) << "and the row with which generation 1 began";
  EXPECT_EQ(Count("psp.data WHERE NOT deleted"), 3);
}

TEST_F(SweepingTest, ATableThatIsEmptiedAgainIsSweptAgain) {
  Stop();
  Sql("INSERT INTO psp.data SELECT 5, int8send(g), 1, 1, false, 'x' FROM generate_series(1, 6000) g;"
      "INSERT INTO psp.emptied_tables VALUES (5, 2)");
  pqxx::connection connection(settings_.database);
  Sweeper sweeper({86'400, 3600});
  const auto sweep = [&] {
    pqxx::work tx(connection);
    const bool more = sweeper.Sweep(tx);
    tx.commit();
    return more;
  };
  EXPECT_TRUE(sweep());
  EXPECT_EQ(Count("psp.data"), 1000);
  Sql("INSERT INTO psp.data SELECT 5, int8send(g), 3, 1, false, 'x' FROM generate_series(1, 10) g;"
      "UPDATE psp.emptied_tables SET emptied_t = 4, swept_upto = ''");
  pqxx::connection writer(settings_.database);
  pqxx::work batch(writer);  // it writes over an older row
  batch.exec("UPDATE psp.data SET global_t = 5 WHERE table_id = 5 AND key = int8send(6000)");
  EXPECT_FALSE(sweep()) << "it waits for nobody";
  EXPECT_EQ(Count("psp.emptied_tables"), 1) << "and is not done";
  batch.commit();
  while (sweep()) continue;
  EXPECT_EQ(Count("psp.data"), 1);
  EXPECT_EQ(Count("psp.emptied_tables"), 0);
}

TEST_F(SweepingTest, WhatLongTransactionsMayLackStaysForAWhile) {
  FakeSp a = Sp(1);
  Enter(a, 0);
  Decide(a, 1, 0, Rows({{"old", std::nullopt}}));
  Age(1);
  const GlobalT fresh = Decide(a, 2, 1, Rows({{"fresh", std::nullopt}})).global_t();
  Sql("UPDATE psp.log_start SET truncated_t = " + std::to_string(fresh));
  Sweep();
  EXPECT_EQ(Count("psp.data WHERE key = 'fresh'"), 1);
  EXPECT_EQ(Count("psp.data"), 1);
  Sql("UPDATE psp.log_start SET clock_ms = clock_ms + 1");
  Sweep({86'400, 0});
  EXPECT_EQ(Count("psp.data"), 0);
}

// A missing key certifies as "written by a transaction up to collected_t".
TEST_F(SweepingTest, AnOlderSnapshotLosesOnAMissingKeyAndOnNoOther) {
  FakeSp a = Sp(1);
  Enter(a, 0);
  Decide(a, 1, 0, Rows({{"lives", "1"}}));
  const GlobalT deletes = Decide(a, 2, 1, Rows({{"k", std::nullopt}})).global_t();
  Age(deletes);
  Sweep();
  ASSERT_EQ(CollectedT(), deletes);
  const auto lost = Decide(a, 3, deletes - 1, Rows({{"k", "again"}}));
  ASSERT_TRUE(lost.has_conflict()) << lost.ShortDebugString();
  EXPECT_EQ(lost.conflict().winner_sp_id(), 0U) << "nobody knows who it was";
  EXPECT_TRUE(Decide(a, 4, deletes - 1, Rows({{"never written", "1"}}), {deletes}).has_conflict());
  EXPECT_GT(Decide(a, 5, deletes - 1, Rows({{"lives", "2"}})).global_t(), 0) << "its last writer is known";
  EXPECT_GT(Decide(a, 6, deletes, Rows({{"k", "again"}})).global_t(), 0);
  proto::WriteSet replacing = Rows({{"gone", "1"}});
  replacing.mutable_rows(0)->set_global_t(deletes - 1);
  EXPECT_TRUE(Decide(a, 7, deletes + 10, replacing).has_conflict())
      << "views mode: it replaces a version that is gone";
}

TEST_F(SweepingTest, ABatchNeverLosesTheRowThatIsCollectedUnderIt) {
  FakeSp a = Sp(1);
  Enter(a, 0);
  const GlobalT deletes = Decide(a, 1, 0, Rows({{"k", std::nullopt}})).global_t();
  Age(deletes);
  pqxx::connection collector(settings_.database);
  pqxx::work collecting(collector);
  Sweeper({86'400, 3600}).Sweep(collecting);
  a.Certify(Id(2), deletes, Rows({{"k", "again"}}));  // finds the old row, and waits for it
  while (Count("pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()") == 0) {
  }
  collecting.commit();
  EXPECT_GT(NextDecision(a).global_t(), deletes);
  EXPECT_EQ(Count("psp.data WHERE key = 'k' AND NOT deleted"), 1);
}

TEST_F(SweepingTest, ABacklogIsRemovedInPieces) {
  Sql("INSERT INTO psp.data SELECT 1, int8send(g), 1, 1, true, NULL FROM generate_series(1, 12000) g;"
      "INSERT INTO psp.tx_log (tx_id, sp_id, global_t, decided_ms)"
      " SELECT gen_random_uuid(), 1, NULL, g - 2 * 86400000"
      " FROM generate_series(1, 50000) g;"
      "UPDATE psp.log_start SET truncated_t = 1");
  EXPECT_EQ(Sweep(), 3);
  EXPECT_EQ(Count("psp.data"), 0);
  EXPECT_EQ(Count("psp.tx_log"), 0);
}

// A semi-primary that is away for long keeps what it may ask for. Decisions that cannot go are not read again
// and again.
TEST_F(SweepingTest, DecisionsThatMustStayAreLookedAtOnce) {
  Sql("INSERT INTO psp.tx_log (tx_id, sp_id, global_t, decided_ms)"
      " SELECT gen_random_uuid(), 1, g, g - 2 * 86400000 FROM generate_series(1, 50000) g");
  pqxx::connection connection(settings_.database);
  pqxx::work tx(connection);
  Sweeper sweeper({86'400, 3600});
  EXPECT_TRUE(sweeper.Sweep(tx));
  EXPECT_TRUE(sweeper.Sweep(tx));
  EXPECT_FALSE(sweeper.Sweep(tx));
  EXPECT_FALSE(sweeper.Sweep(tx)) << "there is nothing new to look at";
  EXPECT_EQ(tx.exec1("SELECT count(*) FROM psp.tx_log")[0].as<int>(), 50000);
  tx.exec0("UPDATE psp.log_start SET truncated_t = 30000");
  while (sweeper.Sweep(tx)) {
  }
  EXPECT_EQ(tx.exec1("SELECT count(*) FROM psp.tx_log")[0].as<int>(), 20000);
}

TEST_F(SweepingTest, WhatIsForgottenIsNeverToldAsAborted) {
  FakeSp a = Sp(1);
  Enter(a, 0);
  EXPECT_GT(Decide(a, 10, 0, Rows({{"a", "1"}})).global_t(), 0);
  EXPECT_FALSE(Decide(a, 20, 0, Rows({{"a", "2"}})).has_global_t());
  const GlobalT newest = Decide(a, 30, 1, Rows({{"b", "1"}})).global_t();
  Age(newest - 1, 48);
  Sweep();
  EXPECT_TRUE(Outcome(a, 10).forgotten());
  EXPECT_TRUE(Outcome(a, 9).forgotten()) << "it may have committed before";
  EXPECT_EQ(Outcome(a, 30).global_t(), newest) << "not everybody has it yet";
  const auto never = Outcome(a, 11);
  EXPECT_FALSE(never.forgotten()) << "it is newer than all that was forgotten";
  EXPECT_EQ(never.global_t(), 0);
  EXPECT_FALSE(Decide(a, 11, 2, Rows({{"c", "1"}})).has_global_t()) << "for good";
  EXPECT_EQ(Count("psp.tx_log WHERE psp.xid_of(tx_id) <= 10"), 0) << "no such question is written down";
  EXPECT_GT(Decide(a, 8, 2, Rows({{"c", "1"}})).global_t(), 0) << "it has been open for long";
  EXPECT_GT(Outcome(a, 8).global_t(), 0);
}

TEST_F(SweepingTest, IdsThatNoSemiPrimaryHasMadeAreNotWrittenDown) {
  FakeSp a = Sp(1);
  Enter(a, 0);
  for (const auto& [place, byte] : {std::pair(6, '\x40'), std::pair(15, '\x09')}) {
    std::string bytes = Id(7).ToBytes();
    bytes[static_cast<std::size_t>(place)] = byte;
    proto::ToPrimary ask;
    ask.mutable_outcome_request()->set_tx_id(bytes);
    a.Send(ask);
    auto message = a.Next();
    while (message && !message->has_outcome_reply()) message = a.Next();
    ASSERT_TRUE(message);
    EXPECT_TRUE(message->outcome_reply().forgotten());
  }
  EXPECT_EQ(Count("psp.tx_log"), 0);
}

// The server's clock does not matter: only the time in which daemons have served makes a decision old.
TEST_F(SweepingTest, TheClockMovesOnWithTheDaemon) {
  Stop();
  pqxx::connection connection(settings_.database);
  Sweeper sweeper({86'400, 3600});
  const auto advance = [&] {
    pqxx::work tx(connection);
    sweeper.AdvanceClock(tx);
    tx.commit();
    return Sql("SELECT clock_ms FROM psp.log_start")[0][0].as<std::int64_t>();
  };
  const std::int64_t began_ms = advance();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const std::int64_t later_ms = advance();
  EXPECT_GE(later_ms - began_ms, 50);
  EXPECT_LT(later_ms - began_ms, 50'000);
}

TEST_F(SweepingTest, TheDaemonSweepsByItself) {
  Stop();
  Sql("INSERT INTO psp.data SELECT 1, int8send(g), 1, 1, true, NULL FROM generate_series(1, 12000) g;"
      "INSERT INTO psp.replication_log SELECT g, gen_random_uuid(), 1, '' FROM generate_series(1, 50000) g;"
      "UPDATE psp.semi_primaries SET acked_t = 50000 WHERE acked_t = 0;"
      "UPDATE psp.log_start SET settled_t = 50000, truncated_t = 1");
  Start();
  FakeSp a = Sp(1);
  Enter(a, 50000);
  while (Count("psp.data") > 0 || Count("psp.replication_log") > 0) a.Next(50);
}

TEST_F(SweepingTest, OldDecisionsAndDeletedKeysAreFoundByIndexes) {
  Sql("INSERT INTO psp.data SELECT 1, int8send(g), 1, 1, g % 1000 = 0, 'x' FROM generate_series(1, 100000) g;"
      "INSERT INTO psp.tx_log (tx_id, sp_id, decided_ms) SELECT gen_random_uuid(), 1, g * 1000 "
      "FROM generate_series(1, 100000) g; ANALYZE psp.data, psp.tx_log");
  const auto plan = [this](const std::string& query) {
    std::string text;
    for (const auto& row : Sql("EXPLAIN " + query)) text += row[0].as<std::string>() + "\n";
    return text;
  };
  const std::string deleted = plan(
      "SELECT FROM psp.data WHERE deleted AND (table_id, key) > (0, '') ORDER BY table_id, key LIMIT 50");
  EXPECT_NE(deleted.find("data_deleted"), std::string::npos) << deleted;
  const std::string old = plan(
      "SELECT FROM psp.tx_log WHERE decided_ms >= -9 AND decided_ms < 1000000 "
      "ORDER BY decided_ms LIMIT 50");
  EXPECT_NE(old.find("tx_log_decided_ms"), std::string::npos) << old;
}

}  // namespace
}  // namespace psp::primary
