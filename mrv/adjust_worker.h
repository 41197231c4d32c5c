// Changes the number of records of values, after each window of outcomes (thesis, section 4.3.3).
#pragma once

#include <map>
#include <optional>
#include <set>
#include <stop_token>

#include "mrv/adjust.h"
#include "mrv/backoff.h"
#include "mrv/value_worker.h"

namespace psp::mrv {

// One runner of several, each with its own values. An advisory lock for each change keeps out the runners of
// balance, and those of a killed daemon whose last statement still runs.
class AdjustWorker : private ValueWorker {
 public:
  // `settings` and `board` must outlive this.
  AdjustWorker(const MrvSettings& settings, WindowBoard* board, int runner);

  // The thread's body; returns when stop is requested.
  void Run(std::stop_token stop);

 private:
  void Round(const Window& window, std::stop_token stop);
  void AdjustQuiet(const Columns& columns, const std::set<ValueId>& done, const Window& window,
                   std::stop_token stop);
  void AdjustOne(const Column& column, const ValueId& value, const Observed& observed, const Window& window,
                 std::optional<std::int64_t> changed_us);
  bool IsUsedElsewhere(const ValueId& value, double total);
  // Whether there are more or fewer records now.
  bool Change(const ValueId& value, std::int32_t change, const Window& window);

  const int runner_;
  Backoff backoff_{2};                // windows: values that need more records should not wait long
  std::map<ValueId, double> totals_;  // of shared values at rest here, when last looked at
  ValueId resume_after_;              // where the last round's look at quiet values had to end
};

}  // namespace psp::mrv
