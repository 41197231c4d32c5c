#include "primary/core/losses_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/hex.h"

namespace psp::primary {
namespace {

constexpr std::int64_t kLineUs = 60'000'000;
constexpr std::size_t kShownMax = 20;

Reservations::Counters Sum(const LossesReport::Counters& counters) {
  Reservations::Counters sum;
  for (const auto& [sp_id, one] : counters) {
    sum.losses += one.losses;
    sum.reservations += one.reservations;
    sum.used += one.used;
  }
  return sum;
}

}  // namespace

std::optional<std::string> LossesReport::TakeLine(const Reservations& reservations, std::int64_t now_us) {
  const Reservations::Counters now = Sum(reservations.counters());
  if (now_us < next_line_us_ || now.losses == in_line_.losses) return std::nullopt;
  std::string line = fmt::format(
      "since the last such line: transactions that lost to another semi-primary: {}, times that their "
      "keys were reserved: {}, of these with a commit: {}",
      now.losses - in_line_.losses, now.reservations - in_line_.reservations, now.used - in_line_.used);
  in_line_ = now;
  next_line_us_ = now_us + kLineUs;
  return line;
}

std::optional<std::string> LossesReport::TakeStatus(const Reservations& reservations, std::int64_t now_us) {
  const double seconds = static_cast<double>(std::max<std::int64_t>(now_us - status_us_, 1)) / 1e6;
  status_us_ = now_us;
  const auto in_force = reservations.in_force();
  if (in_force.empty() && reservations.counters() == in_status_) return std::nullopt;
  std::string losers;
  for (const auto& [sp_id, counters] : reservations.counters()) {
    losers += fmt::format(R"({}{{"sp_id":{},"losses_per_s":{:.1f},"losses":{},"reservations":{},"used":{}}})",
                          losers.empty() ? "" : ",", sp_id,
                          static_cast<double>(counters.losses - in_status_[sp_id].losses) / seconds,
                          counters.losses, counters.reservations, counters.used);
  }
  in_status_ = reservations.counters();
  std::string shown;
  for (const Reservations::InForce& one : in_force) {
    if (&one - in_force.data() == kShownMax) break;
    shown += fmt::format(R"({}{{"sp_id":{},"table_id":{},"key":"{}","keys":{},"age_ms":{},"waiting":{}}})",
                         shown.empty() ? "" : ",", one.sp_id, one.lost.table_id, EncodeHex(one.lost.key),
                         one.keys, (now_us - one.since_us) / 1000, one.waiting);
  }
  return fmt::format(R"({{"losers":[{}],"reservations":[{}]}})", losers, shown);
}

}  // namespace psp::primary
