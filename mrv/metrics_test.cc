#include "mrv/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mrv/worker_counts.h"

namespace psp::mrv {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST(MrvMetrics, CountsForEachWorker) {
  CountsOf("adjust").changes = 3;
  CountsOf("balance").conflicts = 2;
  CountsOf("status").rounds = 9;
  const std::string text = MrvMetrics({.version = "1.2"}, true);
  EXPECT_THAT(text, HasSubstr("psp_mrv_changes_total{worker=\"adjust\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("psp_mrv_conflicts_total{worker=\"balance\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("psp_mrv_conflicts_total{worker=\"adjust\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("psp_mrv_rounds_total{worker=\"status\"} 9\n"));
  EXPECT_THAT(text, HasSubstr("psp_mrv_serving 1\n"));
  EXPECT_THAT(text, HasSubstr("psp_build_info{version=\"1.2\"} 1\n"));
  EXPECT_THAT(text, Not(HasSubstr("psp_epoch")));
}

TEST(MrvMetrics, WhoWaitsIsNotWell) {
  EXPECT_THAT(MrvIllness(true), IsEmpty());
  EXPECT_THAT(MrvIllness(false), HasSubstr("adapts nothing"));
  EXPECT_THAT(MrvMetrics({}, false), HasSubstr("psp_mrv_serving 0\n"));
}

}  // namespace
}  // namespace psp::mrv
