#include "primary/certify/executor_pool.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <span>
#include <utility>

#include "common/log.h"
#include "primary/certify/batch_statement.h"
#include "primary/certify/fence.h"

namespace psp::primary {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kTerminateWait{5000};
constexpr std::int64_t kTroubleWaitMs = 500;  // between attempts while PostgreSQL refuses everything

// An error of the transaction's content, which comes again with each attempt. Any other error (disk full, out
// of memory, a missing right) may pass, and must not decide "aborted".
bool IsTheTransactionsOwn(const PgError& error) {
  return error.sqlstate.starts_with("22") || error.sqlstate.starts_with("23") ||
         error.sqlstate.starts_with("54");
}

// The same transaction, but only to be recorded as aborted. Its number will never be committed.
Batch Refused(const Batch& alone, const PgError& error) {
  BatchItem refused{alone.items[0].request, 0, "refused by the primary's PostgreSQL: " + error.message,
                    std::nullopt, error.sqlstate};
  return {alone.batch_id, {std::move(refused)}, alone.numbers};
}

Batch PartOf(const Batch& batch, std::span<const BatchItem> items) {
  Batch part{batch.batch_id, {items.begin(), items.end()}, {}};
  for (const BatchItem& item : items) {
    if (item.global_t == 0) continue;
    part.numbers = {part.numbers.first_t > 0 ? part.numbers.first_t : item.global_t, item.global_t};
  }
  return part;
}

}  // namespace

ExecutorPool::ExecutorPool(Options options, std::function<void()> on_usurped)
    : options_(std::move(options)),
      on_usurped_(std::move(on_usurped)),
      batches_(options_.executors),
      results_(options_.executors) {
  for (std::size_t i = 0; i < options_.executors; ++i) {
    threads_.emplace_back([this](std::stop_token stop) { Work(std::move(stop)); });
  }
}

ExecutorPool::~ExecutorPool() {
  for (std::jthread& thread : threads_) thread.request_stop();
  results_.Close();
}

void ExecutorPool::Submit(Batch batch) {
  ++busy_;
  batches_.Push(std::move(batch));
}

std::vector<BatchResult> ExecutorPool::TakeResults() {
  std::vector<BatchResult> results = results_.TakeAll();
  busy_ -= results.size();
  return results;
}

void ExecutorPool::Work(std::stop_token stop) {
  PgSession session({.conninfo = options_.database,
                     .application_name = "psp-primary executor",
                     .settings = BatchSessionSettings()});
  PrepareBatchStatement(session);
  if (!Connect(session, stop)) return;
  while (auto batch = batches_.Pop(stop)) {
    std::vector<Verdict> verdicts = Decide(session, *batch, stop);
    if (verdicts.empty()) return;
    results_.Push({batch->batch_id, std::move(verdicts)});
  }
}

bool ExecutorPool::Connect(PgSession& session, std::stop_token stop) {
  while (session.ConnectUntilStopped(stop)) {
    PgResult<bool> ours = options_.is_same_server(session);
    if (ours.ok() && *ours) ours = JoinFence(session, options_.epoch);
    if (ours.ok() && *ours) return true;
    if (ours.ok()) {
      on_usurped_();
      return false;
    }
    session.Close();
    if (WaitOrStop(stop, kTroubleWaitMs)) return false;
  }
  return false;
}

std::vector<Verdict> ExecutorPool::Decide(PgSession& session, const Batch& batch, std::stop_token stop) {
  LogOnce logged;
  while (!stop.stop_requested()) {
    PgResult<std::vector<Verdict>> verdicts = RunBatch(session, batch);
    if (verdicts.ok()) return std::move(verdicts.value());
    const PgError& error = verdicts.error();
    if (error.reaction == PgReaction::kAbort && IsTheTransactionsOwn(error)) {
      if (batch.items.size() > 1) return DecideInHalves(session, batch, stop);
      if (batch.items[0].global_t > 0) return Decide(session, Refused(batch, error), stop);
    }
    if (logged.First(error.sqlstate)) spdlog::warn("a batch failed: {} {}", error.sqlstate, error.message);
    switch (error.reaction) {
      case PgReaction::kRetry:
        break;
      case PgReaction::kAbort:
        if (WaitOrStop(stop, kTroubleWaitMs)) return {};
        break;
      case PgReaction::kReconnect:
      case PgReaction::kInDoubt: {
        // The old backend may still work on the batch. When it has ended, the batch is run again and finds
        // in psp.tx_log what the old backend did.
        const int pid = session.backend_pid();
        const std::string start = session.backend_start();
        bool gone = false;
        while (!gone) {
          if (!Connect(session, stop)) return {};
          const PgResult<bool> ended = TerminateBackend(session, pid, start, kTerminateWait);
          gone = ended.ok() && *ended;
        }
        break;
      }
    }
  }
  return {};
}

// One bad transaction costs a few more batches, not one for each of the others.
std::vector<Verdict> ExecutorPool::DecideInHalves(PgSession& session, const Batch& batch,
                                                  std::stop_token stop) {
  const auto middle = batch.items.begin() + static_cast<std::ptrdiff_t>(batch.items.size() / 2);
  std::vector<Verdict> all;
  for (const auto& half : {std::span(batch.items.begin(), middle), std::span(middle, batch.items.end())}) {
    std::vector<Verdict> some = Decide(session, PartOf(batch, half), stop);
    if (some.empty()) return {};
    std::ranges::move(some, std::back_inserter(all));
  }
  return all;
}

}  // namespace psp::primary
