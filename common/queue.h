// Queues between threads: bounded, first in first out, and able to wake a poll loop.
//
// Order: an item pushed before another one (by one thread, or by two that synchronise) comes out before it.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

#include "common/wake_up.h"

namespace psp {

// Any number of pushing and popping threads. Holds `capacity_items`; when full, TryPush refuses, Push waits.
template <class T>
class BoundedQueue {
 public:
  explicit BoundedQueue(std::size_t capacity_items) : capacity_items_(capacity_items) {}
  BoundedQueue(const BoundedQueue&) = delete;
  BoundedQueue& operator=(const BoundedQueue&) = delete;

  // False, and `item` untouched, when full or closed.
  bool TryPush(T&& item) {
    {
      const std::lock_guard lock(mutex_);
      if (closed_ || items_.size() >= capacity_items_) return false;
      items_.push_back(std::move(item));
    }
    not_empty_.notify_one();
    return true;
  }

  // Waits while full. False, and `item` untouched, only when closed.
  bool Push(T&& item) {
    {
      std::unique_lock lock(mutex_);
      not_full_.wait(lock, [this] { return closed_ || items_.size() < capacity_items_; });
      if (closed_) return false;
      items_.push_back(std::move(item));
    }
    not_empty_.notify_one();
    return true;
  }

  // Waits while empty. Nothing when closed and empty, or when stop is requested.
  std::optional<T> Pop(std::stop_token stop = {}) {
    std::unique_lock lock(mutex_);
    not_empty_.wait(lock, stop, [this] { return closed_ || !items_.empty(); });
    if (stop.stop_requested()) return std::nullopt;
    return TakeFront(lock);
  }

  std::optional<T> TryPop() {
    std::unique_lock lock(mutex_);
    return TakeFront(lock);
  }

  // Everything that is there, in order; does not wait.
  std::vector<T> TakeAll() {
    std::vector<T> all;
    {
      const std::lock_guard lock(mutex_);
      all.reserve(items_.size());
      for (T& item : items_) all.push_back(std::move(item));
      items_.clear();
    }
    not_full_.notify_all();
    return all;
  }

  // Refuses new items; those inside can still be taken.
  void Close() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    not_empty_.notify_all();
    not_full_.notify_all();
  }

  std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return items_.size();
  }

 private:
  std::optional<T> TakeFront(std::unique_lock<std::mutex>& lock) {
    if (items_.empty()) return std::nullopt;
    std::optional<T> item(std::move(items_.front()));
    items_.pop_front();
    lock.unlock();
    not_full_.notify_one();
    return item;
  }

  const std::size_t capacity_items_;
  mutable std::mutex mutex_;
  // Guarded by mutex_:
  std::condition_variable_any not_empty_;
  std::condition_variable not_full_;
  std::deque<T> items_;
  bool closed_ = false;
};

// A bounded queue whose reader is a poll loop: fd() becomes readable when there is something in it.
// Any thread may push; only the loop's thread calls TakeAll.
template <class T>
class Mailbox {
 public:
  explicit Mailbox(std::size_t capacity_items) : queue_(capacity_items) {}

  int fd() const { return wake_up_.fd(); }

  // Waits while full; false only when closed.
  bool Push(T&& item) {
    const bool pushed = queue_.Push(std::move(item));
    if (pushed) wake_up_.Notify();
    return pushed;
  }

  // False when full or closed.
  bool TryPush(T&& item) {
    const bool pushed = queue_.TryPush(std::move(item));
    if (pushed) wake_up_.Notify();
    return pushed;
  }

  // Everything that has arrived, in order; resets fd().
  std::vector<T> TakeAll() {
    wake_up_.Drain();  // before taking, so that a push in between wakes the loop again
    return queue_.TakeAll();
  }

  void Close() { queue_.Close(); }
  std::size_t size() const { return queue_.size(); }

 private:
  BoundedQueue<T> queue_;
  WakeUp wake_up_;
};

}  // namespace psp
