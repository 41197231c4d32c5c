// SIGTERM and SIGINT as something a poll loop can wait for.
#pragma once

namespace psp {

// Construct in main() before any thread starts: threads inherit the blocked signals. SIGPIPE is ignored.
class StopSignals {
 public:
  StopSignals();  // throws std::system_error
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // Readable when a signal has arrived.
  int fd() const { return fd_; }
  // True when a signal had arrived; takes it.
  bool TakeSignal() const;

 private:
  const int fd_;
};

}  // namespace psp
