// Where the time of COMMITs goes, as this semi-primary sees it. Pure; one owner; times are monotonic microseconds.
#pragma once

#include <algorithm>
#include <cstdint>

#include "common/metrics/histogram.h"

namespace psp::sp {

// One transaction that the primary has decided, and what its Decision tells of the primary's part.
struct DecidedCommit {
  std::int64_t arrived_us = 0;  // its request
  std::int64_t sent_us = 0;     // to the primary
  std::int64_t decided_us = 0;  // the Decision has come
  std::int64_t queue_us = 0;
  std::int64_t certify_us = 0;
};

struct CommitTimes {
  Histogram check =
      Histogram::OfTimes();  // from the request until it was sent: local certification, a lost connection
  Histogram network = Histogram::OfTimes();    // both ways, and the sockets of both daemons
  Histogram queue = Histogram::OfTimes();      // at the primary, until its batch was sent to PostgreSQL
  Histogram certify = Histogram::OfTimes();    // at the primary, until the decision was durable
  Histogram answer = Histogram::OfTimes();     // from the Decision until the backend was answered
  Histogram committed = Histogram::OfTimes();  // all of it, of those that have committed
  Histogram aborted = Histogram::OfTimes();    // all of it, of the others

  void OnDecided(const DecidedCommit& one) {
    const std::int64_t away_us = std::max<std::int64_t>(one.decided_us - one.sent_us, 0);
    // Sent again after a lost connection, it may have been there for longer than it was away.
    const std::int64_t queue_us = std::clamp<std::int64_t>(one.queue_us, 0, away_us);
    const std::int64_t certify_us = std::clamp<std::int64_t>(one.certify_us, 0, away_us - queue_us);
    check.Add(one.sent_us - one.arrived_us);
    queue.Add(queue_us);
    certify.Add(certify_us);
    network.Add(away_us - queue_us - certify_us);
  }

  // `decided_us`: 0 if no Decision has told its outcome.
  void OnAnswered(std::int64_t arrived_us, std::int64_t decided_us, bool has_committed, std::int64_t now_us) {
    if (decided_us != 0) answer.Add(now_us - decided_us);
    (has_committed ? committed : aborted).Add(now_us - arrived_us);
  }
};

}  // namespace psp::sp
