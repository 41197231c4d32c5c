#include "primary/connections/connections.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace psp::primary {
namespace {

using Kind = Connections::HelloAnswer::Kind;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::int64_t kTimeoutUs = 1000;
const std::string kCluster(16, 'c');

class ConnectionsTest : public testing::Test {
 protected:
  ConnectionsTest() {
    connections_.SetRegistry({{1, "lisbon", false, 10}, {2, "tokyo", false, -1}, {3, "gone", true, 5}});
  }

  static proto::Hello Hello(SpId sp_id, const std::string& name, std::uint64_t incarnation = 1,
                            GlobalT watermark = 10) {
    proto::Hello hello;
    hello.set_cluster_id(kCluster);
    hello.set_sp_id(sp_id);
    hello.set_name(name);
    hello.set_incarnation(incarnation);
    hello.set_watermark(watermark);
    hello.set_protocol_version(kProtocolVersion);
    return hello;
  }

  Connections::HelloAnswer Greet(const std::string& route, const proto::Hello& hello, std::int64_t now_us = 0,
                                 GlobalT truncated_t = 0, bool fresh = true) {
    return connections_.Hello(route, hello, truncated_t, fresh, now_us);
  }

  void ExpectRefused(const proto::Hello& hello, proto::Refused::Reason reason, GlobalT truncated_t = 0) {
    const auto answer = Greet("x", hello, 0, truncated_t);
    EXPECT_EQ(answer.kind, Kind::kRefused);
    EXPECT_EQ(answer.refused.reason(), reason);
    EXPECT_FALSE(answer.refused.message().empty());
    EXPECT_EQ(connections_.OnMessageFrom("x", 7, 0), std::nullopt);
  }

  static TxId Id(char number) { return *TxId::FromBytes(std::string(TxId::kSize, number)); }

  Connections connections_{{kCluster, 7, kTimeoutUs, {{"older", 1}, {"now", 101}}, {{103, Id('k')}}}};
};

TEST_F(ConnectionsTest, WelcomedSpIsHeardOverItsRouteInItsEpochOnly) {
  EXPECT_EQ(connections_.OnMessageFrom("a", 7, 0), std::nullopt);
  EXPECT_EQ(Greet("a", Hello(1, "lisbon")).kind, Kind::kWelcome);
  EXPECT_EQ(connections_.OnMessageFrom("a", 7, 0), SpId{1});
  EXPECT_EQ(connections_.OnMessageFrom("a", 6, 0), std::nullopt);
  EXPECT_EQ(connections_.OnMessageFrom("b", 7, 0), std::nullopt);
  ASSERT_NE(connections_.RouteOf(1), nullptr);
  EXPECT_EQ(*connections_.RouteOf(1), "a");
}

TEST_F(ConnectionsTest, RefusesWhoDoesNotBelongHere) {
  auto foreign = Hello(1, "lisbon");
  foreign.set_cluster_id("other");
  ExpectRefused(foreign, proto::Refused::WRONG_CLUSTER);
  ExpectRefused(Hello(9, "new"), proto::Refused::UNKNOWN_SP);
  ExpectRefused(Hello(3, "gone"), proto::Refused::UNKNOWN_SP);
  ExpectRefused(Hello(1, "porto"), proto::Refused::NAME_MISMATCH);
  auto old = Hello(1, "lisbon");
  old.set_protocol_version(kProtocolVersion + 1);
  ExpectRefused(old, proto::Refused::PROTOCOL_VERSION);
}

TEST_F(ConnectionsTest, OfTwoVersionsTheOlderOneIsToBeReplaced) {
  auto hello = Hello(1, "lisbon");
  hello.set_protocol_version(kProtocolVersion - 1);
  EXPECT_THAT(Greet("x", hello).refused.message(), testing::HasSubstr("start the semi-primary's daemon"));
  hello.set_protocol_version(kProtocolVersion + 1);
  EXPECT_THAT(Greet("x", hello).refused.message(), testing::HasSubstr("start the primary's daemon"));
}

TEST_F(ConnectionsTest, AsksForTheRegistryBeforeRefusingANewNumber) {
  EXPECT_EQ(Greet("a", Hello(9, "new"), 0, 0, false).kind, Kind::kAskRegistry);
  connections_.SetRegistry({{9, "new", false, -1}});
  EXPECT_EQ(Greet("a", Hello(9, "new"), 0, 0, true).kind, Kind::kWelcome);
}

TEST_F(ConnectionsTest, TruncatedLogStopsAllButJoiners) {
  ExpectRefused(Hello(1, "lisbon", 1, 19), proto::Refused::LOG_TRUNCATED, 20);
  EXPECT_EQ(Greet("a", Hello(1, "lisbon", 1, 20), 0, 20).kind, Kind::kWelcome);
  EXPECT_EQ(Greet("b", Hello(2, "tokyo", 1, 0), 0, 20).kind, Kind::kWelcome);
  auto long_away = Hello(1, "lisbon", 1, 19);
  long_away.set_newest_t(19);
  long_away.set_history("forgotten");
  ExpectRefused(long_away, proto::Refused::LOG_TRUNCATED, 20);
}

// However far the SP is behind by W, and whether it has joined or not as far as this database knows.
TEST_F(ConnectionsTest, WhoHasWhatWasLostIsRefused) {
  auto hello = Hello(1, "lisbon");
  hello.set_newest_t(100);
  hello.set_history("older");
  EXPECT_EQ(Greet("x", hello).kind, Kind::kWelcome);
  connections_.Goodbye(1);
  hello.set_newest_t(101);
  ExpectRefused(hello, proto::Refused::OTHER_HISTORY);
  hello.set_history("another");
  hello.set_newest_t(7);
  ExpectRefused(hello, proto::Refused::OTHER_HISTORY);
  auto joined_since = Hello(2, "tokyo");
  joined_since.set_newest_t(150);
  joined_since.set_history("another");
  ExpectRefused(joined_since, proto::Refused::OTHER_HISTORY);
  EXPECT_EQ(Greet("x", Hello(2, "tokyo")).kind, Kind::kWelcome);
}

// Also with the same numbers: nothing may have been decided since.
TEST_F(ConnectionsTest, WhoHasFollowedANewerPrimaryIsTold) {
  auto hello = Hello(1, "lisbon", 1, 100);
  hello.set_newest_t(100);
  hello.set_history("older");
  hello.set_followed("newer");
  ExpectRefused(hello, proto::Refused::STALE_PRIMARY, 20);
  hello.set_followed("older");
  EXPECT_EQ(Greet("y", hello).kind, Kind::kWelcome);
  auto unknown = Hello(9, "new");
  unknown.set_followed("newer");
  ExpectRefused(unknown, proto::Refused::STALE_PRIMARY);
  auto long_away = Hello(1, "lisbon", 1, 19);
  long_away.set_followed("forgotten");
  ExpectRefused(long_away, proto::Refused::LOG_TRUNCATED, 20);
  auto joining = Hello(2, "tokyo");
  joining.set_followed("forgotten");
  EXPECT_EQ(Greet("z", joining).kind, Kind::kWelcome) << "it gets a copy";
  joining.set_newest_t(100);
  joining.set_history("older");
  ExpectRefused(joining, proto::Refused::STALE_PRIMARY);
}

TEST_F(ConnectionsTest, ALookIsAnsweredAndChangesNothing) {
  Greet("a", Hello(1, "lisbon", 1), 0);
  auto look = Hello(1, "lisbon", 2);
  look.set_look(true);
  EXPECT_EQ(Greet("b", look, 1).kind, Kind::kLook) << "also of another daemon, which waits for its turn";
  EXPECT_EQ(*connections_.RouteOf(1), "a");
  look.set_followed("newer");
  const auto refused = Greet("b", look, 1);
  EXPECT_EQ(refused.kind, Kind::kRefused);
  EXPECT_TRUE(refused.refused.look());
  EXPECT_EQ(connections_.EpochsSince("older").size(), connections_.epochs().size());
  EXPECT_EQ(connections_.EpochsSince("unknown").size(), 1U);
}

TEST_F(ConnectionsTest, OwnCommitsAreLookedAtOneByOne) {
  const auto with = [](GlobalT global_t, const std::string& tx_id) {
    auto hello = Hello(1, "lisbon");
    hello.set_newest_t(99);
    hello.set_history("older");
    for (const auto& [own_t, own_id] : {std::pair(GlobalT{100}, Id('a').ToBytes()), {global_t, tx_id}}) {
      proto::OwnCommit* own = hello.add_own_commits();
      own->set_global_t(own_t);
      own->set_tx_id(own_id);
      own->set_history("older");
    }
    return hello;
  };
  EXPECT_EQ(Greet("x", with(103, Id('k').ToBytes())).kind, Kind::kWelcome);
  connections_.Goodbye(1);
  ExpectRefused(with(102, Id('k').ToBytes()), proto::Refused::OTHER_HISTORY);
  ExpectRefused(with(103, Id('l').ToBytes()), proto::Refused::OTHER_HISTORY);
  ExpectRefused(with(103, "no id"), proto::Refused::OTHER_HISTORY);
}

TEST_F(ConnectionsTest, SecondDaemonOfOneSpIsRefusedUntilTheFirstIsSilent) {
  Greet("a", Hello(1, "lisbon", 1), 0);
  connections_.OnMessageFrom("a", 7, 500);
  const auto answer = Greet("b", Hello(1, "lisbon", 2), 1499);
  EXPECT_EQ(answer.refused.reason(), proto::Refused::DUPLICATE_SP);
  EXPECT_EQ(connections_.OnMessageFrom("a", 7, 500), SpId{1});  // not disturbed
  EXPECT_EQ(Greet("b", Hello(1, "lisbon", 2), 1500).kind, Kind::kWelcome);
  EXPECT_EQ(connections_.OnMessageFrom("a", 7, 1500), std::nullopt);
}

TEST_F(ConnectionsTest, TheSameDaemonMayComeOverANewRoute) {
  Greet("a", Hello(1, "lisbon", 1), 0);
  EXPECT_EQ(Greet("b", Hello(1, "lisbon", 1), 1).kind, Kind::kWelcome);
  EXPECT_EQ(*connections_.RouteOf(1), "b");
  EXPECT_EQ(connections_.OnMessageFrom("a", 7, 1), std::nullopt);
}

TEST_F(ConnectionsTest, GoodbyeFreesThePlaceAtOnce) {
  Greet("a", Hello(1, "lisbon", 1), 0);
  connections_.Goodbye(1);
  EXPECT_EQ(connections_.RouteOf(1), nullptr);
  EXPECT_EQ(Greet("b", Hello(1, "lisbon", 2), 1).kind, Kind::kWelcome);
}

TEST_F(ConnectionsTest, SilentAndReleasedOnesAreRemoved) {
  Greet("a", Hello(1, "lisbon"), 0);
  Greet("b", Hello(2, "tokyo"), 600);
  EXPECT_THAT(connections_.Expire(999), IsEmpty());
  EXPECT_THAT(connections_.Expire(1000), ElementsAre(1));
  EXPECT_EQ(connections_.OnMessageFrom("a", 7, 1000), std::nullopt);
  connections_.SetRegistry({{2, "tokyo", true, 0}});
  EXPECT_THAT(connections_.RemoveReleased(), ElementsAre(2));
}

}  // namespace
}  // namespace psp::primary
