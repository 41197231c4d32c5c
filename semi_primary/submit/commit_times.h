// Where the time of COMMITs goes, as this semi-primary sees it. Pure; one owner; times are monotonic microseconds.
#pragma once

#include <cstdint>

#include "common/metrics/histogram.h"
#include "semi_primary/front/commit_timing.h"
#include "semi_primary/submit/recent_commits.h"

namespace psp::sp {

struct CommitTimes {
  // The parts (CommitParts), of COMMITs that the primary has decided.
  Histogram check = Histogram::OfTimes();
  Histogram network = Histogram::OfTimes();
  Histogram parked = Histogram::OfTimes();
  Histogram queue = Histogram::OfTimes();
  Histogram certify = Histogram::OfTimes();
  Histogram answer = Histogram::OfTimes();
  RecentCommits recent{};                      // the same of the last minute
  Histogram committed = Histogram::OfTimes();  // all of it, of those that have committed
  Histogram aborted = Histogram::OfTimes();    // all of it, of the others

  void OnAnswered(const CommitTiming& timing, bool has_committed, std::int64_t now_us) {
    (has_committed ? committed : aborted).Add(now_us - timing.arrived_us);
    if (timing.decided_us == 0) return;
    const CommitParts parts = PartsOf(timing, now_us);
    check.Add(parts.check_us);
    network.Add(parts.network_us);
    parked.Add(parts.parked_us);
    queue.Add(parts.queue_us);
    certify.Add(parts.certify_us);
    answer.Add(parts.answer_us);
    recent.Add(parts, now_us);
  }
};

}  // namespace psp::sp
