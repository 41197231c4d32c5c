#include "semi_primary/core/connection.h"

#include <gtest/gtest.h>

namespace psp::sp {
namespace {

constexpr std::int64_t kTimeoutUs = 3'000'000;

TEST(Connection, HelloIsRepeatedUntilWelcome) {
  Connection connection(kTimeoutUs);
  EXPECT_TRUE(connection.HelloIsDue(1));
  connection.OnHelloSent(1);
  EXPECT_FALSE(connection.HelloIsDue(500'000));
  EXPECT_TRUE(connection.HelloIsDue(500'001));
  connection.OnWelcome(7, 0);
  EXPECT_FALSE(connection.HelloIsDue(900'000'000));
  EXPECT_EQ(connection.epoch(), 7);
}

TEST(Connection, ASecondHelloIsRepeatedTooWhileTheConnectionStaysOpen) {
  Connection connection(kTimeoutUs);
  connection.OnWelcome(7, 0);
  connection.OnHelloSent(1);
  connection.AwaitWelcome();
  EXPECT_TRUE(connection.is_open());
  EXPECT_FALSE(connection.HelloIsDue(2));
  EXPECT_TRUE(connection.HelloIsDue(500'001));
  connection.OnWelcome(7, 0);
  EXPECT_FALSE(connection.awaits_welcome());
}

TEST(Connection, SilenceCountsFromTheLastMessage) {
  Connection connection(kTimeoutUs);
  EXPECT_FALSE(connection.IsSilent(INT64_MAX)) << "there is no connection";
  connection.OnMessage(1000);
  connection.OnWelcome(7, 0);
  EXPECT_FALSE(connection.IsSilent(1000 + kTimeoutUs));
  EXPECT_TRUE(connection.IsSilent(1001 + kTimeoutUs));
  connection.OnMessage(5000);
  EXPECT_FALSE(connection.IsSilent(1001 + kTimeoutUs));
}

TEST(Connection, AfterALossHelloIsDueAtOnce) {
  Connection connection(kTimeoutUs);
  connection.OnHelloSent(1);
  connection.OnWelcome(7, 0);
  connection.OnLost();
  EXPECT_FALSE(connection.is_open());
  EXPECT_TRUE(connection.HelloIsDue(2));
}

TEST(Connection, HeartbeatsFollowTheIntervalThatThePrimaryTells) {
  Connection connection(kTimeoutUs);
  EXPECT_FALSE(connection.HeartbeatIsDue(900'000'000)) << "there is no connection";
  connection.OnWelcome(7, 100);
  connection.OnHeartbeatSent(1000);
  EXPECT_FALSE(connection.HeartbeatIsDue(100'999));
  EXPECT_TRUE(connection.HeartbeatIsDue(101'000));
  connection.OnHeartbeatReply(1000, 31'000);
  EXPECT_EQ(connection.rtt_us(), 30'000);
}

TEST(Connection, NoAnswerIsToldOnceAndNotAfterALossThatWasTold) {
  Connection connection(kTimeoutUs);
  EXPECT_FALSE(connection.TakeNoAnswer(1000));
  EXPECT_FALSE(connection.TakeNoAnswer(1000 + kTimeoutUs));
  EXPECT_TRUE(connection.TakeNoAnswer(1001 + kTimeoutUs));
  EXPECT_FALSE(connection.TakeNoAnswer(10 * kTimeoutUs));
  connection.OnMessage(11 * kTimeoutUs);
  connection.OnWelcome(7, 0);
  connection.OnLost();
  EXPECT_FALSE(connection.TakeNoAnswer(90 * kTimeoutUs));
}

}  // namespace
}  // namespace psp::sp
