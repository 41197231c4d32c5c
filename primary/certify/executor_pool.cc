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
    : troubles_(options.troubles), server_(options.server), reports_(executors) {
  ready_.Add(reports_.fd(), kReports, PollSet::For::kRead);
  for (std::size_t i = 0; i < executors; ++i) {
    const auto report = [this, i](ExecutorReport done) { reports_.Push({i, std::move(done)}); };
    executors_.push_back(std::make_unique<Executor>(options, &ready_, i, report, on_usurped));
  }
}

ExecutorPool::~ExecutorPool() {
  for (const auto& executor : executors_) executor->RequestStop();
}

bool ExecutorPool::has_free() const {
  return gate_.held() < kHeldResultsMax &&
         std::ranges::any_of(executors_, [](const auto& executor) { return executor->is_free(); });
}

bool ExecutorPool::has_session() const {
  return std::ranges::any_of(executors_, [](const auto& executor) { return executor->has_session(); });
}

std::size_t ExecutorPool::sessions_by(CertifyBy by) const {
  return static_cast<std::size_t>(
      std::ranges::count_if(executors_, [by](const auto& executor) { return executor->decides_by() == by; }));
}

void ExecutorPool::Submit(Batch batch) {
  const auto free =
      std::ranges::find_if(executors_, [](const auto& executor) { return executor->is_free(); });
  (*free)->Submit(std::move(batch));
}

std::vector<BatchResult> ExecutorPool::TakeResults() {
  for (const std::uint64_t name : ready_.TakeReady()) {
    if (name != kReports) {
      if (auto report = executors_[name]->OnReady()) Take(std::move(*report));
      continue;
    }
    for (FromThread& one : reports_.TakeAll()) {
      executors_[one.executor]->OnReport();
      if (prover_ == one.executor) prover_.reset();
      Take(std::move(one.report));
    }
  }
  std::vector<BatchResult> proven = gate_.TakeProven();
  Note(proven);
  ProveWhatIsHeld();
  return proven;
}

void ExecutorPool::Note(const std::vector<BatchResult>& proven) {
  GlobalT newest_t = 0;
  for (const BatchResult& result : proven) {
    for (const Verdict& verdict : result.verdicts) newest_t = std::max(newest_t, verdict.global_t);
  }
  server_->OnTold(newest_t);
}

void ExecutorPool::Take(ExecutorReport report) {
  server_->OnWritten(report.look.written);
  if (report.result) {
    gate_.Add(std::move(*report.result), report.look);
  } else {
    gate_.OnLook(report.look);
  }
}

// The look after a later batch may prove it sooner.
void ExecutorPool::ProveWhatIsHeld() {
  const auto position = gate_.waits_for();
  if (!position || prover_) return;
  const auto free =
      std::ranges::find_if(executors_, [](const auto& executor) { return executor->is_free(); });
  if (free == executors_.end()) return;  // asked again when one is
  prover_ = static_cast<std::size_t>(free - executors_.begin());
  (*free)->Prove(*position);
}

}  // namespace psp::primary
