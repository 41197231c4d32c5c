#include "mrv/balance_worker.h"

#include <algorithm>

#include "embedded/mrv_sql.h"
#include "mrv/balance.h"

namespace psp::mrv {

BalanceWorker::BalanceWorker(const MrvSettings& settings, WindowBoard* board, int runner)
    : ValueWorker(settings, board, "balance", runner, settings.balance_runners) {
  session_.Prepare("balance", sql::kWorkerBalance);
}

void BalanceWorker::Run(std::stop_token stop) {
  std::uint64_t seen = 0;
  while (const auto window = board_->WaitAfter(seen, stop)) {
    while (board_->IsServed()) {
      if (!session_.Connect(stop)) return;
      Round(stop);
      EndRound();
      if (WaitOrStop(stop, settings_.balance_interval_ms)) return;
    }
    seen = window->number;
  }
}

void BalanceWorker::Round(std::stop_token stop) {
  const auto columns = ReadColumns(&session_);
  if (!columns) return;
  split_.Refresh(&session_);
  const SplitValues::Map values = split_.values();
  for (const auto& [value, changed_us] : values) {
    if (stop.stop_requested() || !session_.connected()) return;
    const auto column = columns->find(value.column_id);
    if (column != columns->end() && column->second.balance != "none" && backoff_.IsTurn(value)) {
      BalanceOne(column->second, value, stop);
    }
  }
}

void BalanceWorker::BalanceOne(const Column& column, const ValueId& value, std::stop_token stop) {
  const auto amounts = ReadAmounts(&session_, value.column_id, value.key);
  if (!amounts || amounts->records < 2) {
    backoff_.Forget(value);
    return split_.Remove(value);
  }
  if (!IsUnevennessHarmful(*amounts, column.is_bounded, column.record_max)) return;
  const BalanceStrategy strategy = BalanceStrategyOf(column.balance);
  const double tolerance = static_cast<double>(settings_.balance_tolerance_percent) / 100;
  std::int32_t steps = BalanceSteps(strategy, *amounts, tolerance);
  // What is given to other servers' records may meet them, and each step takes a round trip.
  if (column.is_shared) steps = std::min(steps, 1);
  for (; steps > 0 && !stop.stop_requested(); --steps) {
    const auto rows = session_.Call("balance", value.column_id, value.key, column.balance);
    if (!rows) return backoff_.Lost(value);
    if ((*rows)[0][0].is_null()) return;  // another runner has the value
    backoff_.Won(value);
    const std::int32_t written = (*rows)[0][0].as<std::int32_t>();
    if (written > 0) session_.CountAction();
    if (!MayContinue(strategy, written)) return;
  }
}

}  // namespace psp::mrv
