// The whole semi-primary in a real PostgreSQL, against a primary that is only a socket and does what none
// should. After each test the daemon serves as before. Run by run_integration_test.sh.
#include "common/pg_session.h"
#include "semi_primary/testing/semi_primary_fixture.h"

namespace psp::sp {
namespace {

using testing::HasSubstr;
using Kind = FakePrimary::Kind;

TEST_F(SemiPrimaryTest, CommitsAndApplies) {
  ExpectAllIsWell();
  ExpectAllIsWell();
}

TEST_F(SemiPrimaryTest, ConflictIsTold) {
  Answer answer = Raise(1);
  primary_.Abort(primary_.AwaitCertify().tx_id(), table_id_, Key(1));
  const Told told = answer.get();
  EXPECT_EQ(told.sqlstate, "40001");
  EXPECT_THAT(told.text, HasSubstr("Key (id)=(1) of table \"public\".\"item\""));
  EXPECT_THAT(told.text, HasSubstr("semi-primary \"two\" (global_t 99)"));
  EXPECT_EQ(Stock(1), 0);
  ExpectAllIsWell();
}

TEST_F(SemiPrimaryTest, ConflictWithNonsenseInItIsTold) {
  for (const auto& [table_id, key] : std::vector<std::pair<std::uint32_t, std::string>>{
           {table_id_, "\xff nonsense"}, {4711, Key(1)}, {guard_id_, ""}, {0, ""}}) {
    Answer answer = Raise(1);
    primary_.Abort(primary_.AwaitCertify().tx_id(), table_id, key);
    EXPECT_EQ(answer.get().sqlstate, "40001");
  }
  ExpectAllIsWell();
}

TEST_F(SemiPrimaryTest, LateDecisionIsCarriedOutByTheDaemon) {
  Restart({{"commit_timeout_ms", "200"}});
  Answer answer = Raise(2);
  const std::string tx_id = primary_.AwaitCertify().tx_id();
  const Told told = answer.get();
  EXPECT_EQ(told.sqlstate, "08007");
  const std::string tx = TxId::FromBytes(tx_id)->ToText();
  EXPECT_THAT(told.text, HasSubstr("SELECT psp.outcome('" + tx + "')"));
  EXPECT_EQ(Stock(2), 0);
  primary_.Commit(tx_id, 1);
  primary_.Publish({Own(tx_id, 1)});
  primary_.AwaitAck(1);
  EXPECT_EQ(Stock(2), 1);
  Restart({});
  ExpectAllIsWell();
}

TEST_F(SemiPrimaryTest, LostDecisionComesWithTheRepeatedRequest) {
  Answer answer = Raise(2);
  const proto::Certify first = primary_.AwaitCertify();
  primary_.Drop();
  primary_.ForgetIt();
  primary_.Enter();
  EXPECT_EQ(primary_.AwaitCertify().SerializeAsString(), first.SerializeAsString());
  primary_.Commit(first.tx_id(), 1);
  EXPECT_EQ(answer.get().sqlstate, "");
  primary_.Publish({Own(first.tx_id(), 1)});
  ExpectAllIsWell();
}

TEST_F(SemiPrimaryTest, FirstDecisionCounts) {
  Answer answer = Raise(2);
  const std::string tx_id = primary_.AwaitCertify().tx_id();
  for (int i = 0; i < 3; ++i) primary_.Commit(tx_id, 1);
  primary_.Abort(tx_id, table_id_, Key(2));
  EXPECT_EQ(answer.get().sqlstate, "");
  primary_.Publish({Own(tx_id, 1)});
  primary_.Commit(tx_id, 1);
  primary_.AwaitAck(1);
  primary_.Commit(tx_id, 1);
  ExpectAllIsWell();
  EXPECT_EQ(Stock(2), 1);
}

TEST_F(SemiPrimaryTest, DecisionsMayComeInAnyOrderAndAfterTheStream) {
  Answer second = Raise(2);
  const std::string second_tx = primary_.AwaitCertify().tx_id();
  Answer third = Raise(3);
  const std::string third_tx = primary_.AwaitCertify().tx_id();
  Answer fourth = Raise(4);
  const std::string fourth_tx = primary_.AwaitCertify().tx_id();
  primary_.Commit(fourth_tx, 3);
  EXPECT_EQ(fourth.get().sqlstate, "");
  primary_.Publish({Own(second_tx, 1), Own(third_tx, 2), Own(fourth_tx, 3)});
  EXPECT_EQ(second.get().sqlstate, "");
  EXPECT_EQ(third.get().sqlstate, "");
  primary_.Commit(third_tx, 2);
  primary_.Commit(second_tx, 1);
  primary_.AwaitAck(3);
  for (const int id : {2, 3, 4}) EXPECT_EQ(Stock(id), 1) << id;
  ExpectAllIsWell();
}

TEST_F(SemiPrimaryTest, DecisionsThatAreNoneChangeNothing) {
  Answer answer = Raise(2);
  const std::string tx_id = primary_.AwaitCertify().tx_id();
  primary_.Commit(std::string(TxId::kSize, 'u'), 1);  // nobody's
  primary_.Abort(std::string(TxId::kSize, 'u'), table_id_, Key(2));
  primary_.Commit("short", 1);
  primary_.Commit("", 1);
  primary_.Commit(tx_id, 0);
  primary_.Commit(tx_id, -1);
  proto::ToSemiPrimary without_outcome;
  without_outcome.mutable_decision()->set_tx_id(tx_id);
  primary_.Send(without_outcome);
  primary_.Send({});
  primary_.Commit(tx_id, 1);
  const Told told = answer.get();
  EXPECT_EQ(told.sqlstate, "") << told.text;
  EXPECT_EQ(Sql("SELECT global_t FROM psp.applied WHERE global_t <= 0").size(), 0U);
  primary_.Publish({Own(tx_id, 1)});
  ExpectAllIsWell();
}

TEST_F(SemiPrimaryTest, WordsOfAnotherEpochAreDropped) {
  Answer answer = Raise(2);
  const std::string tx_id = primary_.AwaitCertify().tx_id();
  for (const Epoch other : {6, 8, -7}) {
    primary_.set_epoch(other);
    primary_.Abort(tx_id, table_id_, Key(2));
    primary_.PublishAt(0, {Remote(1, 2, 77)});
  }
  primary_.set_epoch(7);
  primary_.Commit(tx_id, 1);
  EXPECT_EQ(answer.get().sqlstate, "");
  primary_.Publish({Own(tx_id, 1)});
  ExpectAllIsWell();
  EXPECT_EQ(Stock(2), 1);
}

// What it says after a restart, too, is by the epochs that it has saved, and by all that its database has.
TEST_F(SemiPrimaryTest, HistoryOutlivesTheDaemon) {
  ExpectAllIsWell();
  Answer answer = Raise(2);
  const GlobalT own = primary_.closed_t() + 1;
  const std::string tx_id = primary_.AwaitCertify().tx_id();
  primary_.Commit(tx_id, own);
  EXPECT_EQ(answer.get().sqlstate, "");
  Stop();
  Start({});
  const proto::Hello hello = primary_.AwaitHello();
  EXPECT_EQ(hello.watermark(), own - 1);
  EXPECT_EQ(hello.newest_t(), own - 1);
  EXPECT_EQ(hello.history(), std::string(16, 'h'));
  ASSERT_EQ(hello.own_commits_size(), 1) << "it is in psp.applied";
  EXPECT_EQ(hello.own_commits(0).global_t(), own);
  EXPECT_EQ(hello.own_commits(0).tx_id(), tx_id);
  EXPECT_EQ(hello.own_commits(0).history(), std::string(16, 'h'));
  primary_.set_histories({std::string(16, 'h'), std::string(16, 'o')});
  primary_.SendWelcome();
  EXPECT_EQ(Join(), 1) << "a primary that has another transaction of this number";
  EXPECT_THAT(Sql("SELECT last_error FROM psp.status")[0][0].as<std::string>(), HasSubstr("join again"));
  primary_.set_histories({std::string(16, 'h')});
  Start({});
  primary_.Enter();
  EXPECT_EQ(Stock(2), 1);
}

TEST_F(SemiPrimaryTest, WelcomeOfAnotherEpochBeginsItAnew) {
  Answer answer = Raise(2);
  const proto::Certify first = primary_.AwaitCertify();
  primary_.set_epoch(8);
  primary_.SendWelcome();
  primary_.AwaitHello();
  primary_.SendWelcome();
  EXPECT_EQ(primary_.Await(Kind::kStreamRequest).epoch(), 8);
  const proto::ToPrimary again = primary_.Await(Kind::kCertify);
  EXPECT_EQ(again.epoch(), 8);
  EXPECT_EQ(again.certify().SerializeAsString(), first.SerializeAsString());
  primary_.set_epoch(7);
  primary_.Abort(first.tx_id(), table_id_, Key(2));
  primary_.set_epoch(8);
  primary_.Commit(first.tx_id(), 1);
  EXPECT_EQ(answer.get().sqlstate, "");
  primary_.Publish({Own(first.tx_id(), 1)});
  ExpectAllIsWell();
}

TEST_F(SemiPrimaryTest, TwoWelcomesAreAsGoodAsOne) {
  Answer answer = Raise(2);
  const std::string tx_id = primary_.AwaitCertify().tx_id();
  primary_.SendWelcome();
  primary_.SendWelcome();
  EXPECT_EQ(primary_.AwaitCertify().tx_id(), tx_id);
  EXPECT_EQ(primary_.AwaitCertify().tx_id(), tx_id);
  primary_.Commit(tx_id, 1);
  primary_.Commit(tx_id, 1);
  EXPECT_EQ(answer.get().sqlstate, "");
  primary_.PublishAt(0, {});
  primary_.Publish({Own(tx_id, 1)});
  primary_.PublishAt(0, {Own(tx_id, 1)});
  ExpectAllIsWell();
  EXPECT_EQ(Stock(2), 1);
}

TEST_F(SemiPrimaryTest, GarbageIsDropped) {
  Answer answer = Raise(2);
  const std::string tx_id = primary_.AwaitCertify().tx_id();
  proto::ToSemiPrimary decision;
  decision.set_epoch(7);
  decision.mutable_decision()->set_tx_id(tx_id);
  decision.mutable_decision()->mutable_conflict()->set_key("a key of some length");
  const std::string whole = decision.SerializeAsString();
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) primary_.SendRaw(whole.substr(0, bytes));
  primary_.SendRaw("\xff\xff nonsense");
  primary_.SendRaw(std::string(1 << 20, '\xff'));
  primary_.Commit(tx_id, 1);
  const Told told = answer.get();
  EXPECT_EQ(told.sqlstate, "") << told.text;
  primary_.Publish({Own(tx_id, 1)});
  ExpectAllIsWell();
}

TEST_F(SemiPrimaryTest, GapInTheStreamIsAskedFor) {
  const auto first = Remote(1, 2, 10), second = Remote(2, 2, 20), third = Remote(3, 3, 30);
  primary_.PublishAt(0, {first});
  primary_.PublishAt(2, {third});
  EXPECT_EQ(primary_.Await(Kind::kStreamRequest).stream_request().from(), 1);
  primary_.PublishAt(2, {third});
  primary_.PublishAt(1, {second, third});
  primary_.PublishAt(1, {second, third});
  primary_.PublishAt(0, {first});
  primary_.AwaitAck(3);
  EXPECT_EQ(Stock(2), 20);
  EXPECT_EQ(Stock(3), 30);
  Restart({});
  ExpectAllIsWell();
}

TEST_F(SemiPrimaryTest, SilenceDuringCommitLeavesTheOutcomeInDoubtUntilItIsAskedFor) {
  Restart({{"commit_timeout_ms", "200"}});
  Answer answer = Raise(2);
  const std::string tx_id = primary_.AwaitCertify().tx_id();
  EXPECT_EQ(answer.get().sqlstate, "08007");
  primary_.ForgetIt();
  primary_.Enter();
  const std::string asked = primary_.Await(Kind::kOutcomeRequest).outcome_request().tx_id();
  EXPECT_EQ(asked, tx_id);
  proto::ToSemiPrimary aborted;
  aborted.mutable_outcome_reply()->set_tx_id(asked);
  primary_.Send(aborted);
  Restart({});
  ExpectAllIsWell();
  EXPECT_EQ(Stock(2), 0);
}

TEST_F(SemiPrimaryTest, PrimaryThatIsSilentIsLost) {
  Restart({{"commit_timeout_ms", "1000"}, {"heartbeat_timeout_ms", "500"}});
  primary_.set_answers_heartbeats(false);
  primary_.Await(Kind::kHello);
  const Told told = Raise(2).get();
  EXPECT_EQ(told.sqlstate, "08006") << told.text;
  EXPECT_THAT(told.text, HasSubstr("Nothing was sent"));
  const Told outcome = Begin("SELECT psp.outcome('00000000-0000-0000-0000-000000000000')").get();
  EXPECT_EQ(outcome.sqlstate, "08006") << outcome.text;
  primary_.set_answers_heartbeats(true);
  Restart({});
  ExpectAllIsWell();
}

TEST_F(SemiPrimaryTest, RefusedForNowGoesOnAsking) {
  primary_.ForgetIt();
  for (int i = 0; i < 3; ++i) {
    primary_.Await(Kind::kHello);
    primary_.Refuse(proto::Refused::DUPLICATE_SP);
  }
  primary_.Enter();
  ExpectAllIsWell();
}

TEST_F(SemiPrimaryTest, RefusedForGoodEnds) {
  Answer answer = Raise(2);
  primary_.AwaitCertify();
  primary_.Refuse(proto::Refused::UNKNOWN_SP);
  EXPECT_EQ(Join(), 1);
  EXPECT_EQ(answer.get().sqlstate, "08007");
  Start({});
  primary_.Enter();
  ExpectAllIsWell();
}

TEST_F(SemiPrimaryTest, WhatIsMalformedInTheStreamStopsItAndSkipsNothing) {
  auto garbage = Remote(1, 2, 10);
  garbage.set_write_set("\xff\xff");
  auto image = Remote(1, 2, 10);
  proto::WriteSet rows;
  rows.ParseFromString(image.write_set());
  rows.mutable_rows(0)->set_image(Record("1, 'no number'::text, 'x'::text"));
  image.set_write_set(rows.SerializeAsString());
  auto table = Remote(1, 2, 10);
  rows.mutable_rows(0)->set_table_id(4711);
  table.set_write_set(rows.SerializeAsString());
  auto access = Remote(1, 2, 10);
  rows.ParseFromString(access.write_set());
  rows.mutable_rows(0)->set_access(static_cast<proto::AccessKind>(7));
  access.set_write_set(rows.SerializeAsString());
  auto entry = Remote(1, 2, 10);
  rows.Clear();
  rows.set_kind(static_cast<proto::EntryKind>(5));
  entry.set_write_set(rows.SerializeAsString());
  auto newer = Remote(1, 2, 10);
  rows.ParseFromString(newer.write_set());
  rows.set_catalog_version(2);
  newer.set_write_set(rows.SerializeAsString());
  for (const proto::Transaction& malformed : {garbage, image, table, access, entry, newer}) {
    primary_.PublishAt(0, {malformed, Remote(2, 3, 30)});
    AwaitState("failed");
    const Told told = Raise(4).get();
    EXPECT_EQ(told.sqlstate, "08006") << told.text;
    EXPECT_THAT(told.text, HasSubstr("has stopped applying"));
    EXPECT_EQ(Stock(3), 0);
    Restart({});
    AwaitState("streaming");  // psp.status still says what the daemon before has written
  }
  ExpectAllIsWell();
}

TEST_F(SemiPrimaryTest, GoodbyeIsSaidAtTheEnd) {
  Stop();
  primary_.Await(Kind::kGoodbye);
}

TEST_F(SemiPrimaryTest, CopyThatNobodyAskedForIsDropped) {
  proto::ToSemiPrimary message;
  message.mutable_copy_chunk()->set_snapshot_t(50);
  message.mutable_copy_chunk()->set_last(true);
  primary_.Send(message);
  ExpectAllIsWell();
  EXPECT_EQ(Sql("SELECT FROM item").size(), 5U);
}

TEST_F(SemiPrimaryTest, DatabaseThatIsNotItsOwnIsRefusedWithWhatToDo) {
  const auto open = [this](const std::string& database, const std::string& name) {
    const auto opened = Housekeeper(database, false, 3600).Claim(name, "");
    return opened.ok() ? std::string() : opened.error().what;
  };
  EXPECT_THAT(open(database_, "one"), HasSubstr("another psp-semi-primary serves this database"));
  Stop();
  EXPECT_THAT(open(database_, "other"), HasSubstr("belongs to semi-primary \"one\", not to \"other\""));
  EXPECT_THAT(open(database_ + " dbname=postgres", "one"), HasSubstr("psp schema adopt"));
  EXPECT_THAT(open(database_ + " dbname=nowhere", "one"), HasSubstr("nowhere"));
  Sql("UPDATE psp.identity SET schema_version = 1");
  EXPECT_THAT(open(database_, "one"),
              AllOf(HasSubstr("schema psp has version 1,"), HasSubstr(": release it")));
  Sql("UPDATE psp.identity SET schema_version = 99");
  EXPECT_THAT(open(database_, "one"), HasSubstr("a newer psp has made it"));
  Sql("UPDATE psp.identity SET schema_version = 2, mode = 'views'");
  EXPECT_THAT(open(database_, "one"), HasSubstr("mode views"));
  EXPECT_EQ(Sql("SELECT FROM psp.identity WHERE hook_conninfo = ''").size(), 0U) << "nothing was changed";
}

// PostgreSQL comes back, and at its address is a copy that was made at another time: it has the same name and
// psp.identity.
TEST_F(SemiPrimaryTest, AnotherDatabaseInThePlaceOfItsOwnIsLeftAlone) {
  ExpectAllIsWell();
  const std::string name = "sp" + std::to_string(databases_);
  pqxx::connection connection(std::string(std::getenv("PSP_TEST_DSN")) + " dbname=postgres");
  pqxx::nontransaction admin(connection);
  admin.exec("ALTER DATABASE " + name + " ALLOW_CONNECTIONS false");
  admin.exec("SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = '" + name + "'");
  admin.exec("ALTER DATABASE " + name + " RENAME TO own_" + name);
  admin.exec("CREATE DATABASE " + name + " TEMPLATE adopted");
  EXPECT_EQ(Join(), 2);
  EXPECT_EQ(Sql("SELECT FROM psp.daemon_status").size(), 0U) << "nothing was written there";
  EXPECT_EQ(Sql("SELECT watermark FROM psp.watermark")[0][0].as<GlobalT>(), 0);
  admin.exec("DROP DATABASE " + name);
  admin.exec("ALTER DATABASE own_" + name + " RENAME TO " + name);
  admin.exec("ALTER DATABASE " + name + " ALLOW_CONNECTIONS true");
  Start({});
  primary_.Enter();
  ExpectAllIsWell();
}

}  // namespace
}  // namespace psp::sp

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  psp::StopSignals signals;  // before any thread
  psp::sp::SemiPrimaryTest::signals_ = &signals;
  return RUN_ALL_TESTS();
}
