#include "semi_primary/housekeeping/status_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace psp::sp {
namespace {

using testing::HasSubstr;

TEST(StatusJson, RatesAreOfTheTimeSinceTheLastOne) {
  DaemonStatus before;
  before.commits_total = 100;
  before.aborts_total = 7;
  before.losses_total = 4;
  DaemonStatus now;
  now.commits_total = 150;
  now.aborts_total = 8;
  now.losses_total = 5;
  const std::string json = StatusJson(now, before, 2.0, "");
  EXPECT_THAT(json, HasSubstr(R"("commits_per_s":25.0,"aborts_per_s":0.5)"));
  EXPECT_THAT(json, HasSubstr(R"("losses_total":5,"losses_per_s":0.5,"reserved":null)"));
}

TEST(StatusJson, WhetherItCanCommitIsABoolean) {
  DaemonStatus now;
  EXPECT_THAT(StatusJson(now, {}, 1.0, ""), HasSubstr(R"("can_commit":false)"));
  now.can_commit = true;
  EXPECT_THAT(StatusJson(now, {}, 1.0, ""), HasSubstr(R"("can_commit":true)"));
}

TEST(StatusJson, PartsOfACommitAreMeansInMilliseconds) {
  DaemonStatus now;
  EXPECT_THAT(StatusJson(now, {}, 1.0, ""), HasSubstr(R"("commit_parts_ms":null)"));
  now.recent = {.commits = 2,
                .parts = {.check_us = 10,
                          .network_us = 60'000,
                          .parked_us = 0,
                          .queue_us = 1'000,
                          .certify_us = 2'500,
                          .answer_us = 100},
                .p99_us = 45'500};
  EXPECT_THAT(
      StatusJson(now, {}, 1.0, ""),
      HasSubstr(
          R"("commit_parts_ms":{"check":0.005,"network":30.000,"parked":0.000,"queue":0.500,"certify":1.250,"answer":0.050,"p99":45.500})"));
}

TEST(StatusJson, LagIsNeverNegative) {
  DaemonStatus now;
  now.watermark = 12;
  now.closed_t = 10;  // the primary's heartbeat is older than the stream
  EXPECT_THAT(StatusJson(now, {}, 1.0, ""), HasSubstr(R"("lag_transactions":0)"));
  now.closed_t = 15;
  EXPECT_THAT(StatusJson(now, {}, 1.0, ""), HasSubstr(R"("lag_transactions":3)"));
}

TEST(StatusJson, TextsOfErrorsCannotBreakOut) {
  DaemonStatus now;
  now.last_error = "a \"b\" \\ \n c";
  now.reserved = "name=(\"x\")";
  EXPECT_THAT(StatusJson(now, {}, 1.0, ""), HasSubstr(R"("last_error":"a \"b\" \\   c","warnings":null)"));
  EXPECT_THAT(StatusJson(now, {}, 1.0, "w"), HasSubstr(R"("warnings":"w"})"));
  EXPECT_THAT(StatusJson(now, {}, 1.0, ""), HasSubstr(R"json("reserved":"name=(\"x\")")json"));
}

}  // namespace
}  // namespace psp::sp
