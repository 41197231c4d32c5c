#include "common/metrics/daemon_numbers.h"

#include <gtest/gtest.h>

#include "common/pg_errors.h"

namespace psp {
namespace {

TEST(DaemonNumbers, AreThoseOfThisProcess) {
  const DaemonNumbers before = ReadDaemonNumbers(1'000'000, 3'500'000);
  EXPECT_EQ(before.running_us, 2'500'000);
  EXPECT_GT(before.resident_bytes, 1 << 20);
  CountPgError(PgReaction::kReconnect);
  const DaemonNumbers after = ReadDaemonNumbers(1'000'000, 3'500'000);
  EXPECT_EQ(after.postgres_errors[2], before.postgres_errors[2] + 1);
  EXPECT_EQ(after.postgres_errors[0], before.postgres_errors[0]);
}

TEST(DaemonNumbers, AQueueIsShownBesideItsBound) {
  DaemonNumbers numbers;
  numbers.version = "1.2";
  numbers.postgres_errors = {1, 2, 3, 4};
  numbers.queue_bytes = {{"full", 7, 7}, {"elsewhere", 5, 0}};
  std::vector<MetricFamily> families;
  AppendDaemonMetrics(numbers, &families);
  const std::string text = RenderMetrics(families);
  for (const char* line :
       {"psp_build_info{version=\"1.2\"} 1\n", "psp_postgres_errors_total{reaction=\"abort\"} 2\n",
        "psp_postgres_errors_total{reaction=\"in_doubt\"} 4\n", "psp_queue_bytes{queue=\"full\"} 7\n",
        "psp_queue_bytes_max{queue=\"full\"} 7\n", "psp_queue_bytes{queue=\"elsewhere\"} 5\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  }
  EXPECT_EQ(text.find("psp_queue_bytes_max{queue=\"elsewhere\"}"), std::string::npos) << text;
}

}  // namespace
}  // namespace psp
