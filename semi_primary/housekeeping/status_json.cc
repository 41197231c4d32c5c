#include "semi_primary/housekeeping/status_json.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/log_line.h"

namespace psp::sp {
namespace {

std::string JsonText(const std::string& text) {
  std::string out;
  AppendJsonString(InOneLine(text), &out);
  return out;
}

std::string TextOrNull(const std::string& text) { return text.empty() ? "null" : JsonText(text); }

double Rate(std::uint64_t now, std::uint64_t before, double seconds) {
  return static_cast<double>(now - before) / std::max(seconds, 0.001);
}

// Means in milliseconds, and the 99th percentile of the whole.
std::string PartsJson(const CommitSums& recent) {
  if (recent.commits == 0) return "null";
  const auto mean = [&](std::int64_t sum_us) {
    return static_cast<double>(sum_us) / 1000.0 / static_cast<double>(recent.commits);
  };
  const CommitParts& sums = recent.parts;
  return fmt::format(
      R"({{"check":{:.3f},"network":{:.3f},"parked":{:.3f},"queue":{:.3f},"certify":{:.3f},"answer":{:.3f},"p99":{:.3f}}})",
      mean(sums.check_us), mean(sums.network_us), mean(sums.parked_us), mean(sums.queue_us),
      mean(sums.certify_us), mean(sums.answer_us), static_cast<double>(recent.p99_us) / 1000.0);
}

}  // namespace

std::string StatusJson(const DaemonStatus& now, const DaemonStatus& before, double seconds,
                       const std::string& warnings) {
  return fmt::format(
      R"({{"state":{},"watermark":{},"closed_t":{},"lag_transactions":{},"lag_ms":{},"commits_total":{},)"
      R"("aborts_total":{},"commits_per_s":{:.1f},"aborts_per_s":{:.1f},"rtt_ms":{:.2f},"epoch":{},"waiting":{},)"
      R"("losses_total":{},"losses_per_s":{:.1f},"reserved":{},"commit_parts_ms":{},)"
      R"("join_rows_done":{},"join_rows_total":{},"can_commit":{},"lacks_own":{},"last_error":{},"warnings":{}}})",
      JsonText(now.state), now.watermark, now.closed_t, std::max<GlobalT>(now.closed_t - now.watermark, 0),
      now.lag_ms, now.commits_total, now.aborts_total, Rate(now.commits_total, before.commits_total, seconds),
      Rate(now.aborts_total, before.aborts_total, seconds), now.rtt_ms, now.epoch, now.waiting,
      now.losses_total, Rate(now.losses_total, before.losses_total, seconds), TextOrNull(now.reserved),
      PartsJson(now.recent), now.join_rows_done, now.join_rows_total, now.can_commit, now.lacks_own,
      TextOrNull(now.last_error), TextOrNull(warnings));
}

}  // namespace psp::sp
