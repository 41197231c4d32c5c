#include "common/metrics/metrics_endpoint.h"

#include <gtest/gtest.h>

namespace psp {
namespace {

MetricsEndpoint::Answers Answers(const std::string& health) {
  return {.metrics = [] { return std::string("psp_x 1\n"); }, .health = [health] { return health; }};
}

TEST(AnswerTo, KnowsTwoPaths) {
  const HttpAnswer metrics = AnswerTo({"/metrics"}, Answers(""));
  EXPECT_EQ(metrics.status, 200);
  EXPECT_EQ(metrics.body, "psp_x 1\n");
  EXPECT_EQ(metrics.content_type, "text/plain; version=0.0.4; charset=utf-8");
  for (const char* path : {"/", "/metrics/", "/Metrics", "/healthz", "/../health"}) {
    EXPECT_EQ(AnswerTo({path}, Answers("")).status, 404) << path;
  }
}

TEST(AnswerTo, HealthIsOkOrTellsWhyNot) {
  EXPECT_EQ(AnswerTo({"/health"}, Answers("")).status, 200);
  const HttpAnswer ill = AnswerTo({"/health"}, Answers("it is stopping"));
  EXPECT_EQ(ill.status, 503);
  EXPECT_EQ(ill.body, "it is stopping\n");
}

TEST(MetricsEndpoint, IsOffWithoutAnAddress) {
  MetricsEndpoint endpoint;
  EXPECT_TRUE(endpoint.Listen("").ok());
  EXPECT_EQ(endpoint.fd(), -1);
  endpoint.Serve(true, 0, {});  // asks nobody
}

TEST(MetricsEndpoint, TellsWhatIsWrongWithTheAddress) {
  MetricsEndpoint endpoint;
  EXPECT_FALSE(endpoint.Listen("nowhere").ok());
  EXPECT_FALSE(endpoint.Listen("192.0.2.1:9610").ok());  // no address of this machine
}

}  // namespace
}  // namespace psp
