#include "common/log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace psp {
namespace {

TEST(Log, AMessageIsOneLine) {
  SetUpLog("psp-test", "info");
  testing::internal::CaptureStderr();
  spdlog::warn("job 1.1 begins: {}", "VACUUM a --\r\n2026-01-01 psp-test error: forged\x1b[2J ÷");
  const std::string logged = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(logged.begin(), logged.end(), '\n'), 1);
  const std::string message = "job 1.1 begins: VACUUM a --  2026-01-01 psp-test error: forged [2J ÷";
  EXPECT_TRUE(logged.ends_with(" psp-test warning: " + message + "\n")) << logged;
}

}  // namespace
}  // namespace psp
