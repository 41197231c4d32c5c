#include "primary/certify/executor_pool.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace psp::primary {
namespace {

constexpr std::uint64_t kReports =
    std::numeric_limits<std::uint64_t>::max();  // executors have their places as names

}  // namespace

ExecutorPool::ExecutorPool(const ExecutorOptions& options, std::size_t executors,
                           const std::function<void()>& on_usurped)
    : reports_(executors) {
  ready_.Add(reports_.fd(), kReports, PollSet::For::kRead);
  for (std::size_t i = 0; i < executors; ++i) {
    const auto report = [this, i](std::optional<BatchResult> result) {
      reports_.Push({i, std::move(result)});
    };
    executors_.push_back(std::make_unique<Executor>(options, &ready_, i, report, on_usurped));
  }
}

ExecutorPool::~ExecutorPool() {
  for (const auto& executor : executors_) executor->RequestStop();
}

bool ExecutorPool::has_free() const {
  return std::ranges::any_of(executors_, [](const auto& executor) { return executor->is_free(); });
}

void ExecutorPool::Submit(Batch batch) {
  const auto free =
      std::ranges::find_if(executors_, [](const auto& executor) { return executor->is_free(); });
  (*free)->Submit(std::move(batch));
}

std::vector<BatchResult> ExecutorPool::TakeResults() {
  std::vector<BatchResult> results;
  for (const std::uint64_t name : ready_.TakeReady()) {
    if (name != kReports) {
      if (auto result = executors_[name]->OnReady()) results.push_back(std::move(*result));
      continue;
    }
    for (FromThread& report : reports_.TakeAll()) {
      executors_[report.executor]->OnReport();
      if (report.result) results.push_back(std::move(*report.result));
    }
  }
  return results;
}

}  // namespace psp::primary
