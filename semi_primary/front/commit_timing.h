// Where the time of one COMMIT goes. Values; times are microseconds.
#pragma once

#include <algorithm>
#include <cstdint>

namespace psp::sp {

// When it was where (monotonic), and what the primary's Decision tells of the primary's part.
struct CommitTiming {
  std::int64_t arrived_us = 0;  // its request was read; 0: it is no COMMIT
  std::int64_t sent_us = 0;     // to the primary, the last time
  std::int64_t decided_us = 0;  // the Decision has come; 0: none has told the outcome
  std::int64_t parked_us = 0;
  std::int64_t queue_us = 0;  // the parked time is in it
  std::int64_t certify_us = 0;
};

// They make the time from its request to its answer.
struct CommitParts {
  std::int64_t check_us = 0;    // until it was sent: local certification, a lost connection
  std::int64_t network_us = 0;  // both ways, and the sockets of both daemons
  std::int64_t parked_us = 0;   // at the primary, while another semi-primary's turn lasts
  std::int64_t queue_us = 0;    // at the primary, from then on until its batch was sent to PostgreSQL
  std::int64_t certify_us = 0;  // at the primary, until the decision was durable
  std::int64_t answer_us = 0;   // from the Decision until the backend was answered

  std::int64_t Whole() const { return check_us + network_us + parked_us + queue_us + certify_us + answer_us; }
  CommitParts& operator+=(const CommitParts& other) {
    check_us += other.check_us;
    network_us += other.network_us;
    parked_us += other.parked_us;
    queue_us += other.queue_us;
    certify_us += other.certify_us;
    answer_us += other.answer_us;
    return *this;
  }
};

// Of one that the primary has decided.
inline CommitParts PartsOf(const CommitTiming& one, std::int64_t answered_us) {
  const std::int64_t away_us = std::max<std::int64_t>(one.decided_us - one.sent_us, 0);
  // Sent again after a lost connection, it may have been there for longer than it was away.
  const std::int64_t there_us = std::clamp<std::int64_t>(one.queue_us, 0, away_us);
  const std::int64_t parked_us = std::clamp<std::int64_t>(one.parked_us, 0, there_us);
  const std::int64_t certify_us = std::clamp<std::int64_t>(one.certify_us, 0, away_us - there_us);
  return {.check_us = std::max<std::int64_t>(one.sent_us - one.arrived_us, 0),
          .network_us = away_us - there_us - certify_us,
          .parked_us = parked_us,
          .queue_us = there_us - parked_us,
          .certify_us = certify_us,
          .answer_us = std::max<std::int64_t>(answered_us - one.decided_us, 0)};
}

// Of several: the sums of their parts.
struct CommitSums {
  std::int64_t commits = 0;
  CommitParts parts{};
  std::int64_t p99_us = 0;  // 99 of 100 took no longer
};

}  // namespace psp::sp
