// When the worker takes what has come: applied together, transactions cost less. Pure.
//
// Who lacks a remote transaction loses against it, so nothing may wait for long. After Hurry() remote transactions
// do not wait at all for a while: where transactions of several semi-primaries meet, everything is as fresh as can be.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

namespace psp::sp {

class Pace {
 public:
  struct Limits {
    std::int64_t rows_us = 20'000;     // at least so long from one batch with rows to the next
    std::int64_t markers_us = 50'000;  // how long own markers alone may wait, so that many move W at once
    std::int64_t hurry_us = 1'000'000;
  };

  explicit Pace(Limits limits) : limits_(limits) {}

  // What has come is taken.
  void OnTaken(bool had_rows, std::int64_t now_us) {
    if (had_rows) taken_us_ = now_us;
  }
  // A local transaction has lost, or waits for what is not applied yet.
  void Hurry(std::int64_t now_us) { hurry_until_us_ = now_us + limits_.hurry_us; }

  // From when on it may be taken. `since_us`: since when its oldest step waits.
  std::int64_t TakeAt(bool has_rows, std::int64_t since_us, std::int64_t now_us) const {
    const std::int64_t markers_us = since_us + limits_.markers_us;
    if (!has_rows) return markers_us;
    if (!taken_us_ || now_us < hurry_until_us_) return now_us;
    return std::min(markers_us, *taken_us_ + limits_.rows_us);
  }

 private:
  const Limits limits_;
  std::optional<std::int64_t> taken_us_;
  std::int64_t hurry_until_us_ = 0;
};

}  // namespace psp::sp
