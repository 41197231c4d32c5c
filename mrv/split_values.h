// The values that stand in records and belong to one runner, remembered between two looks at the database:
// looking reads all records of all columns.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "mrv/outcomes.h"
#include "mrv/worker_session.h"

namespace psp::mrv {

// Owned and used by one thread.
class SplitValues {
 public:
  // Runner `runner` of `runners`: each value belongs to one of them.
  SplitValues(int runner, std::int64_t runners, std::int64_t refresh_ms);

  // Declares the statement; before the session connects.
  static void Prepare(WorkerSession* session);

  // Looks if it is time to. After a failure the old ones stay, and the next call looks again.
  void Refresh(WorkerSession* session);

  // Each value, and when it was last adjusted (the database's clock).
  using Map = std::map<ValueId, std::optional<std::int64_t>>;
  const Map& values() const { return values_; }

  // What the caller has found out or done itself.
  void Set(const ValueId& value, std::int64_t changed_us) { values_[value] = changed_us; }
  void Remove(const ValueId& value) { values_.erase(value); }

 private:
  const int runner_;
  const std::int64_t runners_;
  const std::int64_t refresh_us_;
  Map values_;
  std::optional<std::int64_t> looked_us_;  // monotonic
};

}  // namespace psp::mrv
