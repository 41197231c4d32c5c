#include "primary/core/presence_news.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace psp::primary {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

constexpr std::int64_t kSecondUs = 1'000'000;
constexpr std::int64_t kStartUs = 50 * kSecondUs;
const std::string kCluster(16, 'c');

class PresenceTest : public testing::Test {
 protected:
  PresenceTest() { connections_.SetRegistry({{1, "a"}, {2, "b"}, {3, "gone", true}}); }

  void Hello(SpId sp_id, const std::string& name, std::int64_t now_us) {
    proto::Hello hello;
    hello.set_cluster_id(kCluster);
    hello.set_sp_id(sp_id);
    hello.set_name(name);
    hello.set_incarnation(1);
    hello.set_protocol_version(kProtocolVersion);
    ASSERT_EQ(connections_.Hello(name, hello, 0, true, now_us).kind,
              Connections::HelloAnswer::Kind::kWelcome);
  }

  Connections connections_{{.cluster_id = kCluster, .epoch = 7}};
  PresenceNews news_;
};

TEST_F(PresenceTest, TheFirstHasEverybodyThatWasNotReleased) {
  Hello(1, "a", kStartUs);
  EXPECT_THAT(news_.Take(connections_, kStartUs + 5),
              ElementsAre(Pair(1U, Presence{true, 5}), Pair(2U, Presence{false, std::nullopt})));
}

TEST_F(PresenceTest, WhoComesAndGoesIsToldAtOnceWithTheTime) {
  news_.Take(connections_, kStartUs);
  EXPECT_THAT(news_.Take(connections_, kStartUs + 1), IsEmpty());
  Hello(2, "b", kStartUs + 2);
  EXPECT_THAT(news_.Take(connections_, kStartUs + 3), ElementsAre(Pair(2U, Presence{true, 1})));
  connections_.OnMessageFrom("b", 7, kStartUs + 10);
  EXPECT_THAT(news_.Take(connections_, kStartUs + 11), IsEmpty());
  connections_.Goodbye(2);
  EXPECT_THAT(news_.Take(connections_, kStartUs + 20), ElementsAre(Pair(2U, Presence{false, 10})));
}

TEST_F(PresenceTest, WhoStaysIsToldNowAndThen) {
  Hello(1, "a", kStartUs);
  news_.Take(connections_, kStartUs);
  EXPECT_THAT(news_.Take(connections_, kStartUs + PresenceNews::kEveryUs - 1), IsEmpty());
  connections_.OnMessageFrom("a", 7, kStartUs + 1);
  EXPECT_THAT(news_.Take(connections_, kStartUs + PresenceNews::kEveryUs),
              ElementsAre(Pair(1U, Presence{true, PresenceNews::kEveryUs - 1})));
}

TEST_F(PresenceTest, WhatCouldNotBeRecordedComesAgain) {
  news_.Take(connections_, kStartUs);
  news_.PutBack();
  EXPECT_EQ(news_.Take(connections_, kStartUs + 1).size(), 2U);
}

}  // namespace
}  // namespace psp::primary
