#include "semi_primary/apply/inbox.h"

#include <algorithm>
#include <chrono>

#include "common/clock.h"

namespace psp::sp {
namespace {

bool HasRows(const ApplyStep& step) {
  return step.copied_rows != nullptr ||
         std::any_of(step.transactions.begin(), step.transactions.end(),
                     [](const ApplyTransaction& transaction) { return !transaction.own; });
}

}  // namespace

void ApplyInbox::Push(ApplyStep step) {
  bool matters = false;  // whether a worker that waits for the first step, or for an urgent one, must wake up
  {
    const std::lock_guard lock(mutex_);
    waiting_transactions_ += step.transactions.size();
    waiting_with_rows_ += HasRows(step) ? 1 : 0;
    waiting_.push_back({std::move(step), MonotonicUs()});
    matters = waiting_.size() == 1 || IsUrgent();
  }
  if (matters) changed_.notify_one();
}

bool ApplyInbox::IsUrgent() const {
  return waiting_with_rows_ > 0 || waiting_transactions_ >= limits_.transactions_max;
}

std::vector<ApplyStep> ApplyInbox::TakeSteps(std::stop_token stop, std::int64_t deadline_us) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested() && !IsUrgent()) {
    const std::int64_t now_us = MonotonicUs();
    std::int64_t until_us = deadline_us;
    if (!waiting_.empty()) until_us = std::min(until_us, waiting_.front().since_us + limits_.lazy_us);
    if (now_us >= until_us) break;
    const std::size_t before = waiting_.size();
    changed_.wait_for(lock, stop, std::chrono::microseconds(until_us - now_us),
                      [&] { return IsUrgent() || (before == 0 && !waiting_.empty()); });
  }
  std::vector<ApplyStep> taken;
  std::size_t transactions = 0;
  std::size_t bytes = 0;
  while (!waiting_.empty() && !stop.stop_requested()) {
    const ApplyStep& next = waiting_.front().step;
    const bool fits = transactions + next.transactions.size() <= limits_.transactions_max &&
                      bytes + next.bytes <= limits_.bytes_max;
    const bool alone = next.copied_rows != nullptr || (!taken.empty() && taken.back().copied_rows != nullptr);
    if (!taken.empty() && (!fits || alone)) break;
    transactions += next.transactions.size();
    bytes += next.bytes;
    waiting_transactions_ -= next.transactions.size();
    waiting_with_rows_ -= HasRows(next) ? 1 : 0;
    taken.push_back(std::move(waiting_.front().step));
    waiting_.pop_front();
  }
  return taken;
}

}  // namespace psp::sp
