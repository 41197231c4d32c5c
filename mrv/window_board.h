// Where the status worker tells the other workers that a window of outcomes has ended.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <stop_token>

namespace psp::mrv {

struct Window {
  std::uint64_t number = 0;  // from 1; grows
  // The database's clock, microseconds since 1970.
  std::int64_t began_us = 0;
  std::int64_t ended_us = 0;
};

// Any thread. Empty while the status worker does not serve the database: it has no connection, or another
// daemon serves it. Then the other workers rest.
class WindowBoard {
 public:
  // The status worker's. The number is given here.
  void Publish(std::int64_t began_us, std::int64_t ended_us) {
    {
      const std::lock_guard lock(mutex_);
      last_ = {.number = ++number_, .began_us = began_us, .ended_us = ended_us};
    }
    changed_.notify_all();
  }
  void Withdraw() {
    const std::lock_guard lock(mutex_);
    last_.reset();
  }

  // Waits for a window with a larger number; nothing when stop is requested.
  std::optional<Window> WaitAfter(std::uint64_t number, std::stop_token stop) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, stop, [&] { return last_ && last_->number > number; });
    if (stop.stop_requested()) return std::nullopt;
    return last_;
  }

  // Whether that window is still the last one, and served.
  bool IsLast(std::uint64_t number) const {
    const std::lock_guard lock(mutex_);
    return last_ && last_->number == number;
  }
  bool IsServed() const {
    const std::lock_guard lock(mutex_);
    return last_.has_value();
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::optional<Window> last_;
  std::uint64_t number_ = 0;
};

}  // namespace psp::mrv
