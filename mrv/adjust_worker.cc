#include "mrv/adjust_worker.h"

#include <utility>

#include "embedded/mrv_sql.h"

namespace psp::mrv {
namespace {

std::optional<std::int64_t> OptionalInt64(const pqxx::field& field) {
  if (field.is_null()) return std::nullopt;
  return field.as<std::int64_t>();
}

Observed ReadObserved(const pqxx::row& row) {
  Observed observed{.commits = row["commits"].as<std::int64_t>(),
                    .aborts = row["aborts"].as<std::int64_t>(),
                    .response_ms = std::nullopt,
                    .lock_waiters = row["lock_waiters"].as<double>()};
  if (!row["response_ms"].is_null()) observed.response_ms = row["response_ms"].as<double>();
  return observed;
}

}  // namespace

AdjustWorker::AdjustWorker(const MrvSettings& settings, WindowBoard* board, int runner)
    : ValueWorker(settings, board, "adjust", runner, settings.adjust_runners), runner_(runner) {
  session_.Prepare("heard_of", sql::kWorkerHeardOf);
  session_.Prepare("adjust", sql::kWorkerAdjust);
  session_.Prepare("write_change", sql::kWorkerWriteChange);
  session_.Prepare("forget_value", "DELETE FROM psp_mrv.status WHERE column_id = $1 AND key = $2::text[]");
}

void AdjustWorker::Run(std::stop_token stop) {
  std::uint64_t done = 0;
  while (const auto window = board_->WaitAfter(done, stop)) {
    done = window->number;
    if (!session_.Connect(stop)) return;
    Round(*window, stop);
    EndRound();
  }
}

// First the values with outcomes, because conflicts are there. Then those without, which can only lose
// records.
void AdjustWorker::Round(const Window& window, std::stop_token stop) {
  const auto columns = ReadColumns(&session_);
  if (!columns) return;
  split_.Refresh(&session_);
  const auto rows = session_.Call("heard_of", runner_, settings_.adjust_runners, window.ended_us);
  if (!rows) return;
  std::set<ValueId> done;
  for (const pqxx::row& row : *rows) {
    if (stop.stop_requested() || !board_->IsLast(window.number)) return;
    const ValueId value{.column_id = row["column_id"].as<std::int32_t>(),
                        .key = row["key"].as<std::string>()};
    done.insert(value);
    const auto column = columns->find(value.column_id);
    if (column == columns->end()) continue;
    AdjustOne(column->second, value, ReadObserved(row), window, OptionalInt64(row["changed_us"]));
  }
  AdjustQuiet(*columns, done, window, stop);
}

// Ends with the next window; the next call continues from there. So many quiet values cannot delay hot ones.
void AdjustWorker::AdjustQuiet(const Columns& columns, const std::set<ValueId>& done, const Window& window,
                               std::stop_token stop) {
  const SplitValues::Map quiet = split_.values();
  auto next = quiet.upper_bound(resume_after_);
  for (std::size_t looked = 0; looked < quiet.size(); ++looked, ++next) {
    if (stop.stop_requested() || !board_->IsLast(window.number)) return;
    if (next == quiet.end()) next = quiet.begin();
    const auto& [value, changed_us] = *next;
    resume_after_ = value;
    const auto column = columns.find(value.column_id);
    if (column == columns.end()) {
      split_.Remove(value);
    } else if (!done.contains(value)) {
      AdjustOne(column->second, value, {}, window, changed_us);
    }
  }
}

void AdjustWorker::AdjustOne(const Column& column, const ValueId& value, const Observed& observed,
                             const Window& window, std::optional<std::int64_t> changed_us) {
  if (!IsFresh(window.began_us, window.ended_us, changed_us)) return;
  const bool is_split = split_.values().contains(value);
  // One that is not known to be split has one record, or has been split lately by somebody else.
  if (!is_split && !MayChange(column.adjust, observed, 1, settings_.aborts_min)) return;
  const auto amounts = ReadAmounts(&session_, value.column_id, value.key);
  if (!amounts) {
    split_.Remove(value);
    backoff_.Forget(value);
    session_.Call("forget_value", value.column_id, value.key);
    return;
  }
  RecordSet set{.records = amounts->records, .amount = std::nullopt};
  if (column.is_bounded) set.amount = amounts->total;
  const std::int32_t change = DecideChange(column.adjust, observed, set, settings_.aborts_min);
  if (change < 0 && column.is_shared) {
    // Merging takes the records of other servers, too.
    const bool merges = set.records + change <= 1;
    if (IsAtRest(observed) ? IsUsedElsewhere(value, amounts->total) : merges) return;
  }
  if (change != 0) {
    if (!backoff_.IsTurn(value)) return;
    const bool changed = Change(value, change, window);
    // Of the own part there is no more than one left, and nobody uses those of the others.
    if (!changed && change < 0 && column.is_shared && IsAtRest(observed)) {
      Change(value, column.adjust.nr_min - set.records, window);
    }
  } else if (set.records == 1) {
    split_.Remove(value);
  }
}

// The outcomes at other servers are not known here, but a change of the value is visible. The server that
// uses a value decides about its records. A value that no server uses any more may be merged by each of them.
bool AdjustWorker::IsUsedElsewhere(const ValueId& value, double total) {
  const auto [known, is_new] = totals_.try_emplace(value, total);
  return is_new || std::exchange(known->second, total) != total;
}

bool AdjustWorker::Change(const ValueId& value, std::int32_t change, const Window& window) {
  // Waiting in order to add records blocks only sessions that wait anyway. Merging may hold some of the
  // records while it waits for others.
  const std::int64_t wait_ms = change > 0 ? settings_.add_lock_timeout_ms : settings_.lock_timeout_ms;
  const auto rows = session_.Call("adjust", value.column_id, value.key, change, wait_ms);
  if (!rows) {
    backoff_.Lost(value);
    return false;
  }
  backoff_.Won(value);
  const auto outcome = (*rows)[0][0].as<std::string>();
  const std::int32_t before = (*rows)[0][1].as<std::int32_t>();
  const std::int32_t after = (*rows)[0][2].as<std::int32_t>();
  if (outcome == "gone") split_.Remove(value);
  spdlog::debug("column {} {}: {}, {} records, {} before", value.column_id, value.key, outcome, after,
                before);
  if (after == before) return false;
  session_.CountAction();
  const auto written = session_.Call("write_change", value.column_id, value.key, after, after - before,
                                     window.began_us, window.ended_us);
  if (after == 1) {
    split_.Remove(value);
    totals_.erase(value);
  } else {
    split_.Set(value, written ? (*written)[0][0].as<std::int64_t>() : window.ended_us);
  }
  return true;
}

}  // namespace psp::mrv
