// What a primary that starts again, or was restored from a backup, has and lacks: epochs, and who is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "primary/testing/primary_fixture.h"

namespace psp::primary {
namespace {

TEST_F(PrimaryTest, RestartBeginsANewEpochAndCatchUpHasNoGap) {
  FakeSp a = Sp(1);
  Enter(a, 0);
  GlobalT last = 0;
  for (int i = 1; i <= 30; ++i)
    last = Decide(a, i, 0, Rows({{"k" + std::to_string(i), std::string(1000, 'x')}})).global_t();
  Stop();
  const Epoch before = epoch_;
  settings_.replicate_bytes_max = 5000;
  Start();
  EXPECT_EQ(epoch_, before + 1);
  FakeSp b = Sp(2), a2 = Sp(1, 2);
  Enter(b, 3);
  Enter(a2, last - 1);
  const auto own = NextReplicate(a2);
  EXPECT_TRUE(own.transactions(0).has_write_set());  // another daemon than the one that sent it
  GlobalT at = 3;
  GlobalT next = 4;
  int messages = 0;
  while (at < last) {
    const auto replicate = NextReplicate(b);
    ASSERT_EQ(replicate.from_t(), at);
    ASSERT_GT(replicate.closed_t(), at);
    at = replicate.closed_t();
    for (const auto& one : replicate.transactions()) EXPECT_EQ(one.global_t(), next++);
    ++messages;
  }
  EXPECT_EQ(next, last + 1);
  EXPECT_GT(messages, 3);
  EXPECT_EQ(Decide(a2, 1, 0, Rows({{"k1", "again"}})).global_t(), 1);
  EXPECT_GT(Decide(a2, 100, last, Rows({{"k1", "new"}})).global_t(), last);
  EXPECT_EQ(NextReplicate(b).from_t(), last);
}

// The database as an older copy of it would be, which then gives out the lost numbers again.
TEST_F(PrimaryTest, WhoHasWhatARestoredDatabaseLostIsRefusedAlsoWhenTheGapIsFilled) {
  const auto answer_to = [this](GlobalT newest_t, const std::string& history, SpId sp_id) {
    FakeSp sp = Sp(sp_id, sp_id);
    sp.SayHello(0, newest_t, history);
    const auto answer = sp.Next();
    const bool is_welcome = answer && answer->has_welcome() && !answer->welcome().say_hello();
    return is_welcome ? answer->welcome().epochs(answer->welcome().epochs_size() - 1).history()
           : answer   ? answer->refused().message()
                      : "silence";
  };
  const std::string first = answer_to(0, "", 1);
  FakeSp b = Sp(2);
  Enter(b, 0);
  for (int i = 1; i <= 4; ++i) Decide(b, i, 0, Rows({{"k" + std::to_string(i), "1"}}));
  Stop();
  Start();
  const std::string lost = answer_to(4, first, 1);
  EXPECT_EQ(lost.size(), 16U) << lost;
  EXPECT_NE(lost, first);
  Stop();
  Sql("DELETE FROM psp.replication_log WHERE global_t > 2; DELETE FROM psp.data WHERE global_t > 2;"
      "DELETE FROM psp.tx_log WHERE global_t > 2; DELETE FROM psp.epochs WHERE start_t > 2");
  Start();
  FakeSp a = Sp(1);
  Enter(a, 0);
  for (int i = 11; i <= 14; ++i)
    EXPECT_EQ(Decide(a, i, 0, Rows({{"l" + std::to_string(i), "1"}})).global_t(), i - 8);
  for (const GlobalT newest_t : {3, 4, 5, 100}) {
    EXPECT_THAT(answer_to(newest_t, first, 2), testing::HasSubstr("join again")) << newest_t;
  }
  EXPECT_THAT(answer_to(5, lost, 2), testing::HasSubstr("join again"));
  EXPECT_EQ(answer_to(2, first, 2).size(), 16U) << "it has nothing that was lost";
}

// The database as a copy of it would be that was made when 3 was decided and 2 was not; or as it is when the
// batch of 2 was lost in a crash.
TEST_F(PrimaryTest, WhoHasWhatIsMissingBelowTheNewestNumberIsRefused) {
  FakeSp a = Sp(1);
  a.SayHello(0);
  const auto welcome = a.Next();
  ASSERT_TRUE(welcome && welcome->has_welcome());
  const std::string first = welcome->welcome().epochs(0).history();
  for (int i = 1; i <= 3; ++i)
    EXPECT_EQ(Decide(a, i, 0, Rows({{"k" + std::to_string(i), "1"}})).global_t(), i);
  Stop();
  Sql("DELETE FROM psp.replication_log WHERE global_t = 2; DELETE FROM psp.data WHERE global_t = 2;"
      "DELETE FROM psp.tx_log WHERE global_t = 2; DELETE FROM psp.decided;"
      "INSERT INTO psp.decided VALUES (3, 3); UPDATE psp.log_start SET settled_t = 1");
  const auto is_let_in = [&](GlobalT newest_t, const Commits& own) {
    FakeSp sp = Sp(1, 2);
    sp.SayHello(newest_t, newest_t, first, own);
    const auto answer = sp.Next();
    proto::ToPrimary goodbye;
    goodbye.mutable_goodbye();
    sp.Send(goodbye);
    return answer && answer->has_welcome() && !answer->welcome().say_hello();
  };
  for (int starts = 0; starts < 2; ++starts) {
    Start();
    EXPECT_EQ(Sql("SELECT max(start_t) FROM psp.epochs")[0][0].as<GlobalT>(), starts == 0 ? 2 : 4);
    EXPECT_FALSE(is_let_in(3, {}));
    EXPECT_FALSE(is_let_in(2, {}));
    EXPECT_FALSE(is_let_in(1, {{2, Id(2)}, {3, Id(3)}}));
    EXPECT_FALSE(is_let_in(1, {{3, Id(4)}}));
    EXPECT_TRUE(is_let_in(1, {{3, Id(3)}}));
    EXPECT_TRUE(is_let_in(1, {}));
    if (starts == 0) Stop();
  }
  FakeSp b = Sp(2);
  Enter(b, 1);
  EXPECT_EQ(Decide(b, 5, 1, Rows({{"l", "1"}})).global_t(), 4) << "a missing number is not given out again";
}

// As a standby that is promoted has the address from one moment to the next, with the same epoch.
TEST_F(PrimaryTest, AnotherServerInThePlaceOfItsOwnEndsTheDaemon) {
  FakeSp a = Sp(1);
  Enter(a, 0);
  EXPECT_EQ(Decide(a, 1, 0, Rows({{"k", "1"}})).global_t(), 1);
  const std::string name = Sql("SELECT current_database()")[0][0].as<std::string>();
  pqxx::connection connection(std::getenv("PSP_TEST_DSN"));
  pqxx::nontransaction admin(connection);
  admin.exec("ALTER DATABASE " + name + " ALLOW_CONNECTIONS false");
  admin.exec("SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = '" + name + "'");
  admin.exec("CREATE DATABASE " + name + "_other TEMPLATE " + name);
  admin.exec("ALTER DATABASE " + name + " RENAME TO " + name + "_own");
  admin.exec("ALTER DATABASE " + name + "_other RENAME TO " + name);
  a.Certify(Id(2), 0, Rows({{"l", "1"}}), {});
  thread_.join();
  EXPECT_FALSE(stopped_by_signal_);
  server_.reset();
  EXPECT_EQ(Sql("SELECT FROM psp.tx_log").size(), 1U) << "nothing was decided there";
  Start();
  FakeSp again = Sp(1, 2);
  Enter(again, 0);
  EXPECT_EQ(Decide(again, 2, 0, Rows({{"l", "1"}})).global_t(), 2);
}

TEST_F(PrimaryTest, EpochsThatNobodyCanStandInAreForgotten) {
  for (int i = 0; i < 3; ++i) {
    Stop();
    Start();
  }
  EXPECT_EQ(Sql("SELECT start_t FROM psp.epochs").size(), 4U)
      << "somebody may have followed one that decided nothing";
  Stop();
  Sql("INSERT INTO psp.epochs (epoch, start_t, kept_t) VALUES (-3, 5, 4), (-2, 10, 9);"
      "DELETE FROM psp.epochs WHERE epoch > 0; UPDATE psp.log_start SET truncated_t = 15, settled_t = 15");
  Start();
  const auto left = Sql("SELECT start_t FROM psp.epochs ORDER BY start_t");
  ASSERT_EQ(left.size(), 2U) << "one ended at 9";
  EXPECT_EQ(left[0][0].as<GlobalT>(), 10);
  EXPECT_EQ(left[1][0].as<GlobalT>(), 16);
}

}  // namespace
}  // namespace psp::primary
