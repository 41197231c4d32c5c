#include "common/log.h"

#include <gmock/gmock.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <string>

#include "common/clock.h"
#include "common/log_line.h"

namespace psp {
namespace {

using testing::EndsWith;
using testing::MatchesRegex;

template <class Write>
std::string Written(std::string_view format, Write write) {
  SetUpLog("psp-test", "info", format);
  testing::internal::CaptureStderr();
  write();
  const std::string logged = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(logged.begin(), logged.end(), '\n'), 1) << logged;
  return logged;
}

// Read by a parser that somebody else has written.
google::protobuf::Struct ParsedJson(const std::string& line) {
  google::protobuf::Struct parsed;
  const auto status = google::protobuf::util::JsonStringToMessage(line, &parsed);
  EXPECT_TRUE(status.ok()) << line << status.ToString();
  return parsed;
}

Note Decided() {
  return {.event = "decided",
          .fields = {LogField::Text("sp", "San José \"2\""), LogField::Number("global_t", 41),
                     LogField::Ms("total_ms", 12'045), LogField::Text("lost", "")}};
}

TEST(Log, AMessageIsOneLine) {
  const std::string logged = Written("text", [] {
    spdlog::warn("job 1.1 begins: {}", "VACUUM a --\r\n2026-01-01 psp-test error: forged\x1b[2J ÷");
  });
  const std::string message = "job 1.1 begins: VACUUM a --  2026-01-01 psp-test error: forged [2J ÷";
  EXPECT_THAT(logged, EndsWith(" psp-test warning: " + message + "\n"));
}

TEST(Log, ATextLineHasTheTimeWithItsZone) {
  const std::string logged = Written("text", [] { spdlog::info("here"); });
  EXPECT_THAT(logged, MatchesRegex("[0-9-]+ [0-9:]+\\.[0-9]+[+-][0-9]+ psp-test info: here\n"));
}

TEST(Log, AnEventIsItsNameAndItsFields) {
  const std::string logged = Written("text", [] { Log(Decided()); });
  EXPECT_THAT(logged, EndsWith(R"(: decided sp="San José \"2\"" global_t=41 total_ms=12.045 lost="")"
                               "\n"));
}

TEST(Log, AnEventWithAMessageIsAMessageAsText) {
  const std::string logged = Written(
      "text", [] { Log({.text = "connected to the primary, epoch 5", .event = "connected", .fields = {}}); });
  EXPECT_THAT(logged, EndsWith(" psp-test info: connected to the primary, epoch 5\n"));
}

TEST(Log, JsonHasTheFieldsOfAnEvent) {
  const auto json = ParsedJson(Written("json", [] { Log(Decided()); }));
  EXPECT_EQ(json.fields().at("event").string_value(), "decided");
  EXPECT_EQ(json.fields().at("daemon").string_value(), "psp-test");
  EXPECT_EQ(json.fields().at("level").string_value(), "info");
  EXPECT_EQ(json.fields().at("sp").string_value(), "San José \"2\"");
  EXPECT_EQ(json.fields().at("global_t").number_value(), 41);
  EXPECT_EQ(json.fields().at("total_ms").number_value(), 12.045);
  EXPECT_THAT(json.fields().at("time").string_value(), MatchesRegex("[0-9-]+T[0-9:]+\\.[0-9]+Z"));
  EXPECT_FALSE(json.fields().contains("message"));
}

TEST(Log, ALineMayHaveAnEarlierTime) {
  const auto before = std::chrono::system_clock::now() - std::chrono::hours(1);
  Note note = Decided();
  note.at_us = MonotonicUs() - 3'600'000'000;
  const std::string time = ParsedJson(Written("json", [&] { Log(note); })).fields().at("time").string_value();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(before);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char hour[32];
  ASSERT_GT(std::strftime(hour, sizeof hour, "%Y-%m-%dT%H", &utc), 0U);
  EXPECT_TRUE(time.starts_with(hour)) << time;
}

TEST(Log, JsonOfAnEventIsNotThatOfTheNextLine) {
  Written("json", [] { Log(Decided()); });
  const auto json = ParsedJson(Written("json", [] { spdlog::info("stopped"); }));
  EXPECT_EQ(json.fields().at("message").string_value(), "stopped");
  EXPECT_FALSE(json.fields().contains("event"));
}

TEST(Log, JsonIsValidForEveryByte) {
  for (int first = 0; first < 256; ++first) {
    for (const char* rest : {"a", "\x80", "\x9f\x80", "\xa0\x80", "\x8f\x80\x80", "\x90\x80\x80"}) {
      const std::string text = static_cast<char>(first) + std::string(rest);
      const auto json = ParsedJson(Written("json", [&] { spdlog::info("{}", text); }));
      const std::string& read = json.fields().at("message").string_value();
      const bool is_ascii = first < 0x80 && *rest == 'a';
      EXPECT_TRUE(!is_ascii || read == text) << first;
    }
  }
}

TEST(LogLine, BytesThatAreNoUtf8AreReplacedAndOthersKept) {
  const auto quoted = [](std::string_view text) {
    std::string out;
    AppendJsonString(text, &out);
    return out;
  };
  EXPECT_EQ(quoted("ä€😀"), "\"ä€😀\"");
  EXPECT_EQ(quoted("a\xff b"), "\"a\xEF\xBF\xBD b\"");
  EXPECT_EQ(quoted("\xed\xa0\x80"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");  // a surrogate
  EXPECT_EQ(quoted("\xc0\xaf"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\"");                  // longer than needed
  EXPECT_EQ(quoted("\xe2\x82"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\"");                  // cut off
  EXPECT_EQ(quoted("\t\"\\\x7f"), R"("\u0009\"\\\u007f")");
}

TEST(LogLine, MillisecondsHaveThreeDecimals) {
  EXPECT_EQ(LogField::Ms("a", 0).value, "0.000");
  EXPECT_EQ(LogField::Ms("a", 1'234'005).value, "1234.005");
  EXPECT_EQ(LogField::Ms("a", -50).value, "-0.050");
}

}  // namespace
}  // namespace psp
