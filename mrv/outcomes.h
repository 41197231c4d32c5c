// What has become of the transactions on each value, gathered into windows of time (the thesis's tx_status
// worker, section 4.3.3). Pure: the caller reads the reports and the clock.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace psp::mrv {

// One value of one MRV column.
struct ValueId {
  std::int32_t column_id = 0;
  std::string key;  // a text[] as PostgreSQL writes it; opaque here

  friend auto operator<=>(const ValueId&, const ValueId&) = default;
};

// What somebody reports of a value; many transactions may be in one report.
struct Report {
  ValueId value;
  std::int64_t commits = 0;
  std::int64_t aborts = 0;
  std::int64_t measured = 0;  // how many of those transactions response_ms is about
  double response_ms = 0;     // of all of them together
};

// A value that transactions wait for, as the database shows it in one moment.
struct LockWait {
  ValueId value;
  std::int32_t waiters = 0;
};

// One value's share of a window.
struct Outcome {
  ValueId value;
  std::int64_t commits = 0;
  std::int64_t aborts = 0;
  std::optional<double> response_ms{};  // mean of those measured
  double lock_waiters = 0;              // mean of the samples
};

// Owned and used by one thread. Holds at most `values_max` values; what is reported of more is counted and
// dropped, so that a flood of reports cannot take all memory.
class Outcomes {
 public:
  explicit Outcomes(std::size_t values_max) : values_max_(values_max) {}

  // Negative counts are taken as 0.
  void Add(const Report& report);
  // All values that are waited for in one moment; a value that is not named has nobody waiting.
  void AddSample(const std::vector<LockWait>& waits);

  // Ends the window and begins the next one. Returns, in the order of the values, all that were reported in
  // the window; and once, with zeros, those that were reported in the window before: they have become quiet.
  std::vector<Outcome> Close();

  // Reports dropped since the beginning.
  std::uint64_t dropped() const { return dropped_; }

 private:
  struct Sums {
    std::int64_t commits = 0;
    std::int64_t aborts = 0;
    std::int64_t measured = 0;
    double response_ms = 0;
    std::int64_t waiters = 0;
    bool heard_of = false;
  };

  Sums* Find(const ValueId& value);

  const std::size_t values_max_;
  std::map<ValueId, Sums> sums_;
  std::int64_t samples_ = 0;
  std::uint64_t dropped_ = 0;
};

}  // namespace psp::mrv
