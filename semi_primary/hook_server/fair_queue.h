// A queue with a lane for each of those who ask: they take turns, so that who asks much keeps only himself waiting.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <stop_token>
#include <utility>

namespace psp::sp {

// Any number of pushing and popping threads. T has `connection`.
template <class T>
class FairQueue {
 public:
  // `lane_items_max`: how many may wait in one lane.
  explicit FairQueue(std::size_t lane_items_max) : lane_items_max_(lane_items_max) {}
  FairQueue(const FairQueue&) = delete;
  FairQueue& operator=(const FairQueue&) = delete;

  // False, and `item` untouched, when too many wait in its lane.
  bool TryPush(std::uint32_t lane, T&& item) {
    {
      const std::lock_guard lock(mutex_);
      std::deque<T>& waiting = lanes_[lane];
      if (waiting.size() >= lane_items_max_) return false;
      if (waiting.empty()) turns_.push_back(lane);
      waiting.push_back(std::move(item));
    }
    not_empty_.notify_one();
    return true;
  }

  // Waits while empty. The front of the lane whose turn it is; nothing when stop is requested.
  std::optional<T> Pop(std::stop_token stop) {
    std::unique_lock lock(mutex_);
    if (!not_empty_.wait(lock, stop, [this] { return !turns_.empty(); }) || stop.stop_requested())
      return std::nullopt;
    const std::uint32_t lane = turns_.front();
    turns_.pop_front();
    std::deque<T>& waiting = lanes_.at(lane);
    std::optional<T> item(std::move(waiting.front()));
    waiting.pop_front();
    if (waiting.empty()) {
      lanes_.erase(lane);
    } else {
      turns_.push_back(lane);
    }
    return item;
  }

  // What the connection has waiting is not wanted any more.
  void Drop(std::uint64_t connection) {
    const std::lock_guard lock(mutex_);
    for (auto lane = lanes_.begin(); lane != lanes_.end();) {
      std::erase_if(lane->second, [&](const T& item) { return item.connection == connection; });
      if (lane->second.empty()) std::erase(turns_, lane->first);
      lane = lane->second.empty() ? lanes_.erase(lane) : std::next(lane);
    }
  }

 private:
  const std::size_t lane_items_max_;
  std::mutex mutex_;
  // Guarded by mutex_:
  std::condition_variable_any not_empty_;
  std::map<std::uint32_t, std::deque<T>> lanes_;  // none is empty
  std::deque<std::uint32_t> turns_;               // each lane once
};

}  // namespace psp::sp
