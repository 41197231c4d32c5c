#include "common/metrics/text_format.h"

#include <gtest/gtest.h>

#include <cmath>

namespace psp {
namespace {

using Type = MetricFamily::Type;

TEST(RenderMetrics, HasHelpAndTypeAlsoWithoutASample) {
  EXPECT_EQ(RenderMetrics({{"psp_epoch", Type::kGauge, "The epoch."}}),
            "# HELP psp_epoch The epoch.\n# TYPE psp_epoch gauge\n");
}

TEST(RenderMetrics, CountersAndGauges) {
  EXPECT_EQ(RenderMetrics({MetricFamily{"psp_commits_total", Type::kCounter, "Commits."}.With({}, 12),
                           MetricFamily{"psp_lag_seconds", Type::kGauge, "Lag."}
                               .With({{"sp", "north"}}, 0.25)
                               .With({{"sp", "south"}, {"kind", "x"}}, 3)}),
            "# HELP psp_commits_total Commits.\n"
            "# TYPE psp_commits_total counter\n"
            "psp_commits_total 12\n"
            "# HELP psp_lag_seconds Lag.\n"
            "# TYPE psp_lag_seconds gauge\n"
            "psp_lag_seconds{sp=\"north\"} 0.25\n"
            "psp_lag_seconds{sp=\"south\",kind=\"x\"} 3\n");
}

TEST(RenderMetrics, EscapesWhatWouldEndALabelOrALine) {
  const std::string text = RenderMetrics(
      {MetricFamily{"psp_x", Type::kGauge, "a\\b\n\"c\""}.With({{"sp", "a\"} 1\npsp_y{\\"}}, 1)});
  EXPECT_EQ(text,
            "# HELP psp_x a\\\\b\\n\"c\"\n"
            "# TYPE psp_x gauge\n"
            "psp_x{sp=\"a\\\"} 1\\npsp_y{\\\\\"} 1\n");
}

TEST(RenderMetrics, NumbersThatAreNone) {
  EXPECT_EQ(RenderMetrics({MetricFamily{"psp_x", Type::kGauge, "x"}
                               .With({}, std::nan(""))
                               .With({}, INFINITY)
                               .With({}, -INFINITY)}),
            "# HELP psp_x x\n# TYPE psp_x gauge\npsp_x NaN\npsp_x +Inf\npsp_x -Inf\n");
}

TEST(RenderMetrics, BucketsOfAHistogramCountAllThatIsBelow) {
  constexpr std::array<std::int64_t, 3> kBounds = {1'000, 2'500, 1'000'000};
  Histogram histogram(kBounds, kUsPerSecond);
  for (const std::int64_t us : {-5, 0, 1'000, 1'001, 2'000'000}) histogram.Add(us);
  EXPECT_EQ(
      RenderMetrics({MetricFamily{"psp_t_seconds", Type::kHistogram, "t"}.With({{"stage", "s"}}, histogram)}),
      "# HELP psp_t_seconds t\n"
      "# TYPE psp_t_seconds histogram\n"
      "psp_t_seconds_bucket{stage=\"s\",le=\"0.001\"} 3\n"
      "psp_t_seconds_bucket{stage=\"s\",le=\"0.0025\"} 4\n"
      "psp_t_seconds_bucket{stage=\"s\",le=\"1\"} 4\n"
      "psp_t_seconds_bucket{stage=\"s\",le=\"+Inf\"} 5\n"
      "psp_t_seconds_sum{stage=\"s\"} 2.002001\n"
      "psp_t_seconds_count{stage=\"s\"} 5\n");
}

TEST(RenderMetrics, BoundsInSecondsHaveFewDigits) {
  const std::string text =
      RenderMetrics({MetricFamily{"psp_t_seconds", Type::kHistogram, "t"}.With({}, Histogram::OfTimes())});
  for (const char* le : {"\"0.0001\"", "\"0.00025\"", "\"0.025\"", "\"2.5\"", "\"10\""}) {
    EXPECT_NE(text.find(std::string("psp_t_seconds_bucket{le=") + le + "} 0\n"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace psp
