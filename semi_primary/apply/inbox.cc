#include "semi_primary/apply/inbox.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "common/clock.h"

namespace psp::sp {
namespace {

bool HasRows(const ApplyStep& step) {
  return step.copied_rows != nullptr ||
         std::ranges::any_of(step.transactions, [](const ApplyTransaction& one) { return !one.own; });
}

// Until a schema change is applied, local transactions on its tables lose.
bool WaitsForNobody(const ApplyStep& step) {
  return step.copied_rows != nullptr ||
         std::ranges::any_of(step.transactions, [](const ApplyTransaction& one) {
           return one.write_set && one.write_set->kind() == proto::ENTRY_SCHEMA_CHANGE;
         });
}

}  // namespace

void ApplyInbox::Push(ApplyStep step) {
  bool matters = false;  // whether a worker that waits must look again
  {
    const std::lock_guard lock(mutex_);
    const std::int64_t now_us = MonotonicUs();
    const std::int64_t before_us = TakeAt(now_us);
    Count(step, 1);
    waiting_.push_back({std::move(step), now_us});
    matters = TakeAt(now_us) < before_us;
  }
  if (matters) changed_.notify_one();
}

void ApplyInbox::Hurry() {
  {
    const std::lock_guard lock(mutex_);
    pace_.Hurry(MonotonicUs());
    if (waiting_with_rows_ == 0) return;
  }
  changed_.notify_one();
}

// What is taken has been counted, and is not counted any more.
void ApplyInbox::Count(const ApplyStep& step, int sign) {
  waiting_transactions_ += sign * step.transactions.size();
  waiting_bytes_ += sign * step.bytes;
  waiting_with_rows_ += HasRows(step) ? sign : 0;
  waiting_at_once_ += WaitsForNobody(step) ? sign : 0;
}

std::int64_t ApplyInbox::TakeAt(std::int64_t now_us) const {
  if (waiting_.empty()) return std::numeric_limits<std::int64_t>::max();
  const bool is_full =
      waiting_transactions_ >= limits_.transactions_max || waiting_bytes_ >= limits_.bytes_max;
  if (is_full || waiting_at_once_ > 0) return now_us;
  return pace_.TakeAt(waiting_with_rows_ > 0, waiting_.front().since_us, now_us);
}

std::vector<ApplyStep> ApplyInbox::TakeSteps(std::stop_token stop, std::int64_t deadline_us) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    const std::int64_t now_us = MonotonicUs();
    const std::int64_t until_us = std::min(deadline_us, TakeAt(now_us));
    if (now_us >= until_us) break;
    changed_.wait_for(lock, stop, std::chrono::microseconds(until_us - now_us),
                      [&] { return TakeAt(MonotonicUs()) < until_us; });
  }
  return stop.stop_requested() ? std::vector<ApplyStep>() : Take();
}

std::vector<ApplyStep> ApplyInbox::Take() {
  std::vector<ApplyStep> taken;
  std::size_t transactions = 0;
  std::size_t bytes = 0;
  bool had_rows = false;
  while (!waiting_.empty()) {
    const ApplyStep& next = waiting_.front().step;
    const bool fits = transactions + next.transactions.size() <= limits_.transactions_max &&
                      bytes + next.bytes <= limits_.bytes_max;
    const bool alone = next.copied_rows != nullptr || (!taken.empty() && taken.back().copied_rows != nullptr);
    if (!taken.empty() && (!fits || alone)) break;
    transactions += next.transactions.size();
    bytes += next.bytes;
    had_rows = had_rows || HasRows(next);
    Count(next, -1);
    taken.push_back(std::move(waiting_.front().step));
    waiting_.pop_front();
  }
  pace_.OnTaken(had_rows, MonotonicUs());
  return taken;
}

}  // namespace psp::sp
