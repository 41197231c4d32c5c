// How far this semi-primary is: W, how much of it is on the disk and acknowledged, and how far the primary
// is. Pure; one thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "common/ids.h"

namespace psp::sp {

class Progress {
 public:
  explicit Progress(GlobalT watermark) : watermark_(watermark) {}

  // Everything that the primary has closed by now must be applied before the state is "streaming".
  void OnApplyStarted(GlobalT watermark) {
    watermark_ = watermark;
    catch_up_t_ = std::max(catch_up_t_, closed_t_);
  }
  void OnApplied(GlobalT watermark, GlobalT durable_t) {
    watermark_ = watermark;
    durable_t_ = durable_t;
  }
  // The last acknowledgement may have been lost with the connection.
  void OnWelcome(GlobalT closed_t) {
    closed_t_ = closed_t;
    catch_up_t_ = closed_t;
    acked_t_ = -1;
  }
  void OnClosed(GlobalT closed_t) { closed_t_ = std::max(closed_t_, closed_t); }
  // A part of the stream was taken.
  void OnTaken(std::int64_t now_us) {
    if (behind_since_us_ == 0) behind_since_us_ = now_us;
  }
  void OnTime() {
    if (watermark_ >= closed_t_) behind_since_us_ = 0;
  }

  // The durable W, if the primary does not know it yet.
  std::optional<GlobalT> TakeAck() {
    if (durable_t_ <= acked_t_) return std::nullopt;
    acked_t_ = durable_t_;
    return acked_t_;
  }

  GlobalT watermark() const { return watermark_; }
  GlobalT closed_t() const { return closed_t_; }
  bool has_caught_up() const { return watermark_ >= catch_up_t_; }
  std::int64_t LagMs(std::int64_t now_us) const {
    return behind_since_us_ == 0 ? 0 : (now_us - behind_since_us_) / 1000;
  }

 private:
  GlobalT watermark_;
  GlobalT durable_t_ = -1;
  GlobalT acked_t_ = -1;
  GlobalT closed_t_ = 0;
  GlobalT catch_up_t_ = 0;  // the primary's closed_t at Welcome, or when the apply worker began again
  std::int64_t behind_since_us_ = 0;
};

}  // namespace psp::sp
