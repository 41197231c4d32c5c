// What keeps the apply worker from going on, in a real PostgreSQL: nothing is final, and nothing is skipped.
// And what it does with tables that have changed.
#include <functional>
#include <thread>

#include "embedded/constants.h"
#include "semi_primary/testing/semi_primary_fixture.h"

namespace psp::sp {
namespace {

using testing::HasSubstr;

constexpr const char* kWorkerWaits =
    "SELECT FROM pg_stat_activity WHERE application_name = 'psp apply worker' AND wait_event_type = 'Lock'";
constexpr const char* kCancelWorker =
    "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'psp apply worker'";
constexpr const char* kAddColor = "ALTER TABLE public.item ADD color text DEFAULT 'old'";
constexpr const char* kEndWorkersSession =
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'psp apply worker'";

class ApplyTroubleTest : public SemiPrimaryTest {
 protected:
  void Await(const std::string& what, const std::function<bool()>& is_so) {
    const std::int64_t until_us = MonotonicUs() + FakePrimary::kPatienceMs * 1000;
    while (MonotonicUs() < until_us) {
      if (is_so()) return;
    }
    ADD_FAILURE() << what;
  }
  // As somebody who knows how to come past psp's guard.
  void SqlUnguarded(const std::string& sql) {
    pqxx::connection connection(database_);
    pqxx::work tx(connection);
    const auto switch_guards = [&tx](const std::string& to) {
      for (const pqxx::row& row : tx.exec("SELECT quote_ident(evtname) FROM pg_event_trigger")) {
        tx.exec("ALTER EVENT TRIGGER " + row[0].as<std::string>() + " " + to);
      }
    };
    switch_guards("DISABLE");
    tx.exec(sql);
    switch_guards("ENABLE ALWAYS");
    tx.commit();
  }
  // An index of this server that refuses a stock of 30. Only one that is not unique can be set aside.
  void RefuseThirty(const std::string& sqlstate, const std::string& kind = "") {
    SqlUnguarded(
        "CREATE FUNCTION public.picky(n integer) RETURNS integer IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN "
        "IF n = 30 THEN RAISE EXCEPTION 'no thirty' USING ERRCODE = '" +
        sqlstate + "'; END IF; RETURN n; END $$");
    SqlUnguarded("CREATE " + kind + " INDEX picky ON public.item (id, public.picky(stock))");
  }
  // The first schema change, which makes the second version of the catalog.
  proto::WriteSet Statement(const std::string& text, int n = 1) {
    proto::WriteSet change;
    change.set_catalog_version(2);
    change.set_kind(proto::ENTRY_SCHEMA_CHANGE);
    change.add_rows()->set_table_id(kSchemaHistoryId);
    const std::string key = "1, " + std::to_string(n);
    change.mutable_rows(0)->set_key(Record(key));
    change.mutable_rows(0)->set_image(
        Record(key + ", timestamptz '2026-01-01', 'two'::text, 'owner'::text, psp.statement_settings(), $t$" +
               text + "$t$"));
    return change;
  }
  proto::Transaction Other(GlobalT global_t, const proto::WriteSet& write_set) {
    proto::Transaction transaction = Remote(global_t, 1, 0);
    transaction.set_write_set(write_set.SerializeAsString());
    return transaction;
  }
  // Creates a table, writes a row of it, adds a column, and writes another row and an item.
  proto::WriteSet StatementsAndRows() {
    SqlUnguarded("GRANT CREATE ON SCHEMA public TO owner");
    proto::WriteSet change = Statement("CREATE TABLE public.note (id integer PRIMARY KEY, said text)");
    AddNote(1, "'first'::text", &change);
    change.MergeFrom(Statement("ALTER TABLE public.note ADD color text, ADD UNIQUE (said)", 2));
    AddNote(1, "'second'::text, NULL::text", &change);
    AddNote(2, "'first'::text, 'red'::text", &change);
    proto::Row* guard = change.add_rows();
    guard->set_table_id(change.rows(1).table_id() + 1);
    guard->set_key(Record("'first'::text"));
    guard->set_access(proto::ACCESS_GUARD);
    *change.add_rows() = Item(3).rows(0);
    return change;
  }
  void AddNote(int id, const std::string& values, proto::WriteSet* rows) {
    proto::Row* row = rows->add_rows();
    row->set_table_id(Sql("SELECT last_number + 1 FROM psp.identity")[0][0].as<std::uint32_t>());
    row->set_key(Key(id));
    row->set_image(Record(std::to_string(id) + ", " + values));
  }
  // A row as it is written after kAddColor.
  proto::WriteSet Painted(int id) {
    proto::WriteSet rows;
    rows.set_catalog_version(2);
    proto::Row* row = rows.add_rows();
    row->set_table_id(table_id_);
    row->set_key(Key(id));
    row->set_image(Record(std::to_string(id) + ", 7, NULL::text, 'red'::text"));
    return rows;
  }
  // Up to its row `rows_done`, and it is complete when the stream has come to 9.
  proto::ToSemiPrimary Copy(GlobalT snapshot_t, const proto::WriteSet& rows, std::int64_t rows_done,
                            bool last) {
    proto::ToSemiPrimary message;
    proto::CopyChunk* chunk = message.mutable_copy_chunk();
    chunk->set_snapshot_t(snapshot_t);
    *chunk->mutable_rows() = rows.rows();
    chunk->set_catalog_version(rows.catalog_version());
    chunk->set_rows_done(rows_done);
    chunk->set_last(last);
    if (last) chunk->set_complete_t(9);
    return message;
  }
  proto::WriteSet Item(int id) {
    proto::WriteSet rows;
    rows.ParseFromString(Remote(1, id, 10 * id).write_set());
    return rows;
  }
  void BeginToJoin() {
    Sql("UPDATE psp.identity SET joining = true; UPDATE psp.watermarks SET watermark = -1");
    Stop();
    Start({});
    primary_.AwaitHello();
    primary_.SendWelcome();
  }
  void AwaitRequestOfTheCopy() {
    EXPECT_TRUE(primary_.Await(FakePrimary::Kind::kStreamRequest).stream_request().with_copy());
  }
  std::string Color(int id) {
    return Sql("SELECT color FROM item WHERE id = " + std::to_string(id))[0][0].as<std::string>("");
  }
  std::string Notes() {
    if (Sql("SELECT to_regclass('note')")[0][0].is_null()) return "no table";
    return Sql("SELECT string_agg(note::text, ' ' ORDER BY id) FROM note")[0][0].as<std::string>("");
  }
  std::string LastError() { return Sql("SELECT last_error FROM psp.status")[0][0].as<std::string>(""); }
  void ExpectOver() {
    AwaitState("streaming");
    EXPECT_EQ(LastError(), "");
    EXPECT_EQ(Stock(3), 30);
    EXPECT_EQ(Stock(4), 40);
    ExpectAllIsWell();
  }
};

TEST_F(ApplyTroubleTest, CancelledAgainAndAgainItGoesOn) {
  Restart({{"conflict_grace_ms", "600000"}});
  pqxx::connection connection(database_);
  pqxx::work blocker(connection);
  blocker.exec("SELECT FROM item WHERE id = 3 FOR UPDATE");
  const GlobalT next = primary_.closed_t() + 1;
  primary_.Publish({Remote(next, 3, 30), Remote(next + 1, 4, 40)});
  for (int i = 0; i < 5; ++i) {
    Await("the worker waits", [&] { return !Sql(kWorkerWaits).empty(); });
    Sql(kCancelWorker);
    Await("the worker is cancelled", [&] { return Sql(kWorkerWaits).empty(); });
  }
  AwaitState("retrying");
  EXPECT_THAT(LastError(), testing::AllOf(HasSubstr("57014"), HasSubstr("since 20")));
  blocker.abort();
  primary_.AwaitAck(next + 1);
  ExpectOver();
}

TEST_F(ApplyTroubleTest, WhatMayPassIsTriedAgainUntilItHasPassed) {
  RefuseThirty("53100");
  const GlobalT next = primary_.closed_t() + 1;
  primary_.Publish({Remote(next, 3, 30), Remote(next + 1, 4, 40)});
  AwaitState("retrying");
  EXPECT_THAT(LastError(), testing::AllOf(HasSubstr("53100"), HasSubstr("no thirty")));
  Answer answer = Raise(1);  // COMMITs go on
  const std::string tx_id = primary_.AwaitCertify().tx_id();
  primary_.Commit(tx_id, next + 2);
  EXPECT_EQ(answer.get().sqlstate, "");
  SqlUnguarded("DROP INDEX picky");
  primary_.Publish({Own(tx_id, next + 2)});
  primary_.AwaitAck(next + 2);
  ExpectOver();
}

TEST_F(ApplyTroubleTest, WhatStopsTheStreamGoesOnWhenItIsRemoved) {
  RefuseThirty("P0001", "UNIQUE");
  const GlobalT next = primary_.closed_t() + 1;
  const auto transactions = {Remote(next, 5, 50), Remote(next + 1, 3, 30), Remote(next + 2, 4, 40)};
  std::thread remover([this, next] {
    AwaitState("failed");
    EXPECT_THAT(LastError(), testing::AllOf(HasSubstr("has stopped"), HasSubstr("no thirty")));
    EXPECT_EQ(Sql("SELECT watermark FROM psp.watermark")[0][0].as<GlobalT>(), next) << "all before it is in";
    EXPECT_EQ(Stock(4), 0) << "nothing is skipped";
    const Told told = Raise(1).get();
    EXPECT_EQ(told.sqlstate, "08006") << told.text;
    EXPECT_THAT(told.text, testing::Not(HasSubstr("thirty"))) << "rows are not shown to everybody";
    SqlUnguarded("DROP INDEX picky");
  });
  primary_.PublishUntilAck(transactions);
  remover.join();
  ExpectOver();
}

TEST_F(ApplyTroubleTest, AJoiningOneStoresNoCopyOfACatalogThatItDoesNotKnow) {
  BeginToJoin();
  proto::WriteSet rows = Item(3);
  rows.set_catalog_version(2);
  AwaitRequestOfTheCopy();
  primary_.Send(Copy(9, rows, 1, false));
  AwaitState("failed");
  EXPECT_THAT(LastError(), HasSubstr("version 2 of the catalog, this semi-primary has version 1"));
  EXPECT_EQ(Sql("SELECT FROM item").size(), 5U) << "the copy has not begun";
}

// psp.apply_rows_N is another type then, also in the statement that the worker's session has parsed.
TEST_F(ApplyTroubleTest, RowsOfATableThatHasChangedAreWrittenAsItIsNow) {
  const GlobalT next = primary_.closed_t() + 1;
  primary_.Publish({Remote(next, 3, 30)});
  primary_.AwaitAck(next);
  primary_.Publish({Remote(next + 1, 4, 40)});
  primary_.AwaitAck(next + 1);
  primary_.Publish({Other(next + 2, Statement(kAddColor)), Other(next + 3, Painted(3))});
  primary_.AwaitAck(next + 3);
  EXPECT_EQ(Color(3), "red");
  EXPECT_EQ(Color(4), "old");
  EXPECT_EQ(LastError(), "");
}

TEST_F(ApplyTroubleTest, RowsAmongTheStatementsOfASchemaChangeAreWritten) {
  const GlobalT next = primary_.closed_t() + 1;
  proto::WriteSet change = StatementsAndRows();
  proto::WriteSet rows;
  rows.set_catalog_version(2);
  AddNote(3, "'third'::text, 'blue'::text", &rows);
  primary_.Publish({Other(next, change), Other(next + 1, rows)});
  primary_.AwaitAck(next + 1);
  EXPECT_EQ(Notes(), "(1,second,) (2,first,red) (3,third,blue)");
  EXPECT_EQ(Stock(3), 30);
  EXPECT_EQ(LastError(), "");
  ExpectAllIsWell();
}

TEST_F(ApplyTroubleTest, AnErrorInTheLastRowsOfASchemaChangeLeavesNothingOfIt) {
  RefuseThirty("53100");
  const GlobalT next = primary_.closed_t() + 1;
  const auto transactions = {Remote(next, 4, 40), Other(next + 1, StatementsAndRows())};
  std::thread remover([this, next] {
    AwaitState("retrying");
    EXPECT_THAT(LastError(), HasSubstr("no thirty"));
    EXPECT_EQ(Sql("SELECT watermark FROM psp.watermark")[0][0].as<GlobalT>(), next);
    EXPECT_EQ(Notes(), "no table");
    EXPECT_EQ(Sql("SELECT FROM psp.schema_history").size(), 0U);
    EXPECT_EQ(Sql("SELECT FROM psp.identity WHERE catalog_version = 1").size(), 1U);
    SqlUnguarded("DROP INDEX picky");
  });
  primary_.PublishUntilAck(transactions);
  remover.join();
  EXPECT_EQ(Notes(), "(1,second,) (2,first,red)");
  ExpectOver();
}

TEST_F(ApplyTroubleTest, ASessionThatIsLostBetweenSegmentsBeginsAgain) {
  pqxx::connection connection(database_);
  pqxx::work blocker(connection);
  blocker.exec("SELECT FROM item WHERE id = 3 FOR UPDATE");
  const auto transactions = {Other(primary_.closed_t() + 1, StatementsAndRows())};
  std::thread ender([this, &blocker] {
    Await("the last rows wait", [&] { return !Sql(kWorkerWaits).empty(); });
    EXPECT_EQ(Notes(), "no table");
    Sql(kEndWorkersSession);
    blocker.abort();
  });
  primary_.PublishUntilAck(transactions);
  ender.join();
  EXPECT_EQ(Notes(), "(1,second,) (2,first,red)");
  EXPECT_EQ(Stock(3), 30);
  ExpectAllIsWell();
}

TEST_F(ApplyTroubleTest, AJoiningOneBringsOlderImagesUpToDate) {
  BeginToJoin();
  proto::WriteSet older = Item(3);
  older.mutable_rows(0)->set_catalog_version(1);
  older.set_catalog_version(2);
  proto::WriteSet newer = Painted(4);
  newer.mutable_rows(0)->set_catalog_version(2);
  const proto::WriteSet statement = Statement(kAddColor);
  for (const bool is_interrupted : {true, false}) {
    AwaitRequestOfTheCopy();
    primary_.Send(Copy(9, statement, 1, false));
    primary_.Send(Copy(9, older, 2, false));
    Await("it is stored", [&] { return Sql("SELECT FROM item WHERE id = 3 AND stock = 30").size() == 1; });
    if (is_interrupted) Sql(kEndWorkersSession);
  }
  primary_.Send(Copy(9, newer, 3, true));
  primary_.AwaitAck(9);
  EXPECT_EQ(Sql("SELECT FROM item").size(), 2U);
  EXPECT_EQ(Stock(3), 30);
  EXPECT_EQ(Color(3), "old");
  EXPECT_EQ(Color(4), "red");
}

// As ADD FOREIGN KEY does while the rows that are referenced are still to come.
TEST_F(ApplyTroubleTest, ASchemaChangeThatNeedsRowsWhichAreStillToComeMakesTheCopyBeginAgain) {
  const proto::WriteSet statement = Statement(
      "DO $$ BEGIN IF EXISTS (SELECT FROM public.item) AND NOT EXISTS (SELECT FROM public.item WHERE id = 4) "
      "THEN "
      "RAISE 'item 4 is missing'; END IF; END $$");
  BeginToJoin();
  AwaitRequestOfTheCopy();
  primary_.Send(Copy(7, Item(3), 1, true));
  primary_.PublishAt(7, {Other(8, statement), Remote(9, 4, 40)});
  AwaitRequestOfTheCopy();
  EXPECT_EQ(LastError(), "") << "nobody has to do anything";
  primary_.Send(Copy(9, statement, 1, false));
  primary_.Send(Copy(9, Item(3), 2, false));
  primary_.Send(Copy(9, Item(4), 3, true));
  primary_.AwaitAck(9);
  EXPECT_EQ(Sql("SELECT FROM psp.schema_history").size(), 1U);
  EXPECT_EQ(Sql("SELECT FROM item").size(), 2U);
}

// Any role can take the advisory lock by which the commit hook tells that it is at work.
TEST_F(ApplyTroubleTest, WhoTakesTheLockOfACommitHoldsUpNothing) {
  Answer answer = Raise(2);
  const std::string tx_id = primary_.AwaitCertify().tx_id();
  const std::string key = "hashtext('" + TxId::FromBytes(tx_id)->ToText() + "')";
  const std::unique_ptr<PGconn, decltype(&PQfinish)> holder(PQconnectdb(database_.c_str()), &PQfinish);
  ASSERT_EQ(PQsendQuery(holder.get(),
                        ("SELECT pg_advisory_lock(" + std::to_string(kLockClass) + ", " + key + ")").c_str()),
            1);
  const std::string waits =
      "SELECT FROM pg_locks WHERE locktype = 'advisory' AND classid = " + std::to_string(kLockClass);
  Await("it waits", [&] { return Sql(waits + " AND NOT granted").size() == 1; });
  Sql("SELECT pg_terminate_backend(pid) FROM pg_locks l WHERE relation = 'psp.committing'::regclass "
      "AND locktype = 'relation' AND pid <> pg_backend_pid()");
  EXPECT_NE(answer.get().sqlstate, "");
  Await("it has the lock", [&] { return Sql(waits + " AND granted").size() == 1; });
  primary_.Commit(tx_id, 1);
  primary_.Publish({Own(tx_id, 1)});
  primary_.AwaitAck(1);
  EXPECT_EQ(Stock(2), 1);
  ExpectAllIsWell();
}

// The stream comes from before that transaction each time, in a new session.
TEST_F(ApplyTroubleTest, ARightThatIsMissingForAWhile) {
  SqlUnguarded("ALTER TABLE psp.applied RENAME TO lost");
  Sql(kEndWorkersSession);
  AwaitState("failed");
  EXPECT_THAT(LastError(), HasSubstr("42P01"));
  SqlUnguarded("ALTER TABLE psp.lost RENAME TO applied");
  const GlobalT next = primary_.closed_t() + 1;
  primary_.PublishUntilAck({Remote(next, 3, 30), Remote(next + 1, 4, 40)});
  ExpectOver();
}

}  // namespace
}  // namespace psp::sp
