#include "mrv/outcomes.h"

#include <algorithm>

namespace psp::mrv {

Outcomes::Sums* Outcomes::Find(const ValueId& value) {
  const auto found = sums_.find(value);
  if (found != sums_.end()) return &found->second;
  if (sums_.size() >= values_max_) {
    ++dropped_;
    return nullptr;
  }
  return &sums_[value];
}

void Outcomes::Add(const Report& report) {
  Sums* sums = Find(report.value);
  if (sums == nullptr) return;
  sums->heard_of = true;
  sums->commits += std::max<std::int64_t>(report.commits, 0);
  sums->aborts += std::max<std::int64_t>(report.aborts, 0);
  if (report.measured > 0 && report.response_ms >= 0) {
    sums->measured += report.measured;
    sums->response_ms += report.response_ms;
  }
}

void Outcomes::AddSample(const std::vector<LockWait>& waits) {
  ++samples_;
  for (const LockWait& wait : waits) {
    Sums* sums = Find(wait.value);
    if (sums == nullptr) continue;
    sums->heard_of = true;
    sums->waiters += std::max(wait.waiters, 0);
  }
}

std::vector<Outcome> Outcomes::Close() {
  std::vector<Outcome> closed;
  closed.reserve(sums_.size());
  std::map<ValueId, Sums> next;
  for (const auto& [value, sums] : sums_) {
    Outcome outcome{.value = value, .commits = sums.commits, .aborts = sums.aborts, .response_ms = {}};
    if (sums.measured > 0) outcome.response_ms = sums.response_ms / static_cast<double>(sums.measured);
    if (samples_ > 0)
      outcome.lock_waiters = static_cast<double>(sums.waiters) / static_cast<double>(samples_);
    closed.push_back(std::move(outcome));
    if (sums.heard_of) next.emplace(value, Sums{});
  }
  sums_ = std::move(next);
  samples_ = 0;
  return closed;
}

}  // namespace psp::mrv
