#include "primary/core/losses_report.h"

#include <gtest/gtest.h>

namespace psp::primary {
namespace {

constexpr std::int64_t kSecond = 1'000'000;

class LossesReportTest : public testing::Test {
 protected:
  void Lose() {
    CertifyRequest request;
    request.sp_id = 3;
    for (const char* key : {"k", "l"}) {
      proto::Row* row = request.rows.add_rows();
      row->set_table_id(7);
      row->set_key(key);
    }
    reservations_.OnLost(request, {{7, "k"}}, now_us_);
  }

  std::int64_t now_us_ = 100 * kSecond;
  RoundTrips round_trips_;
  Reservations reservations_{{}, round_trips_};
  LossesReport report_;
};

TEST_F(LossesReportTest, NothingIsToldWhereNobodyLoses) {
  EXPECT_FALSE(report_.TakeLine(reservations_, now_us_).has_value());
  EXPECT_FALSE(report_.TakeStatus(reservations_, now_us_).has_value());
}

TEST_F(LossesReportTest, ALineAMinute) {
  Lose();
  EXPECT_EQ(
      report_.TakeLine(reservations_, now_us_),
      "since the last such line: transactions that lost to another semi-primary: 1, times that their keys "
      "were reserved: 0, of these with a commit: 0");
  Lose();
  EXPECT_FALSE(report_.TakeLine(reservations_, now_us_ + 60 * kSecond - 1).has_value());
  EXPECT_EQ(
      report_.TakeLine(reservations_, now_us_ + 60 * kSecond),
      "since the last such line: transactions that lost to another semi-primary: 1, times that their keys "
      "were reserved: 1, of these with a commit: 0");
  EXPECT_FALSE(report_.TakeLine(reservations_, now_us_ + 120 * kSecond).has_value());
}

TEST_F(LossesReportTest, TheStatusHasRatesAndWhatIsInForce) {
  report_.TakeStatus(reservations_, now_us_ - 2 * kSecond);
  Lose();
  EXPECT_EQ(
      report_.TakeStatus(reservations_, now_us_),
      R"({"losers":[{"sp_id":3,"losses_per_s":0.5,"losses":1,"reservations":0,"used":0}],"reservations":[]})");
  EXPECT_FALSE(report_.TakeStatus(reservations_, now_us_).has_value());
  Lose();
  const std::string losers =
      R"({"losers":[{"sp_id":3,"losses_per_s":1.0,"losses":2,"reservations":1,"used":0}],)";
  EXPECT_EQ(
      report_.TakeStatus(reservations_, now_us_ + kSecond),
      losers + R"("reservations":[{"sp_id":3,"table_id":7,"key":"6b","keys":2,"age_ms":1000,"waiting":0}]})");
  EXPECT_TRUE(report_.TakeStatus(reservations_, now_us_ + kSecond).has_value()) << "it is in force still";
}

}  // namespace
}  // namespace psp::primary
