// An eventfd that wakes a poll loop.
#pragma once

namespace psp {

// Notify from any thread (also many times: they merge); fd() is readable until Drain.
class WakeUp {
 public:
  WakeUp();  // throws std::system_error when the process has no descriptors left
  ~WakeUp();
  WakeUp(const WakeUp&) = delete;
  WakeUp& operator=(const WakeUp&) = delete;

  int fd() const { return fd_; }
  void Notify() const;
  void Drain() const;

 private:
  const int fd_;
};

}  // namespace psp
