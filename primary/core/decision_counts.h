// How long transactions are in each part of the primary, how many are decided together, and what becomes of them: for the metrics, and for
// what a Decision tells its semi-primary. Pure; one thread; times are monotonic microseconds.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "common/ids.h"
#include "common/metrics/histogram.h"
#include "primary/certify/scheduler.h"

namespace psp::primary {

class DecisionCounts {
 public:
  struct Outcomes {  // of one semi-primary's transactions
    std::uint64_t committed = 0;
    std::uint64_t lost = 0;
    std::uint64_t refused = 0;
  };
  // Where one transaction's time went.
  struct Parts {
    std::int64_t parked_us = 0;   // from its arrival until it could be certified
    std::int64_t queue_us = 0;    // from its arrival until its batch was sent
    std::int64_t certify_us = 0;  // from then until the decision could be told
  };

  void OnBatchSent(std::uint64_t batch_id, std::size_t transactions, std::int64_t now_us) {
    sent_us_[batch_id] = now_us;
    batch_transactions_.Add(static_cast<std::int64_t>(transactions));
  }
  // When the batch was sent; it is forgotten.
  std::int64_t TakeSentUs(std::uint64_t batch_id) {
    const auto sent = sent_us_.extract(batch_id);
    return sent.empty() ? 0 : sent.mapped();
  }

  // Also of a repeated request, whose decision was made long ago.
  Parts OnDecided(const Scheduler::Decided& decided, std::int64_t sent_us, std::int64_t now_us) {
    const CertifyRequest& request = *decided.request;
    const Verdict& verdict = decided.verdict;
    Outcomes& outcomes = outcomes_[request.sp_id];
    ++(verdict.global_t > 0 ? outcomes.committed : verdict.conflict ? outcomes.lost : outcomes.refused);
    parked_.Add(request.admitted_us - request.arrived_us);
    waiting_.Add(sent_us - request.admitted_us);
    deciding_.Add(now_us - sent_us);
    return {std::max<std::int64_t>(request.admitted_us - request.arrived_us, 0),
            std::max<std::int64_t>(sent_us - request.arrived_us, 0),
            std::max<std::int64_t>(now_us - sent_us, 0)};
  }
  void OnOutcomeRequest() { ++outcome_requests_; }

  // Until it could be certified: tables that were not known yet, holds, reservations.
  const Histogram& parked() const { return parked_; }
  // From then on, until its batch was sent: keys of others, company, a free session.
  const Histogram& waiting() const { return waiting_; }
  // From then on, until the decision was durable.
  const Histogram& deciding() const { return deciding_; }
  const Histogram& batch_transactions() const { return batch_transactions_; }
  const std::map<SpId, Outcomes>& outcomes() const { return outcomes_; }
  std::uint64_t outcome_requests() const { return outcome_requests_; }

 private:
  std::map<std::uint64_t, std::int64_t> sent_us_;  // of batches under way
  Histogram parked_ = Histogram::OfTimes();
  Histogram waiting_ = Histogram::OfTimes();
  Histogram deciding_ = Histogram::OfTimes();
  Histogram batch_transactions_ = Histogram::OfCounts();
  std::map<SpId, Outcomes> outcomes_;
  std::uint64_t outcome_requests_ = 0;
};

}  // namespace psp::primary
