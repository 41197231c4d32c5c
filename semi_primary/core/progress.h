// How far this semi-primary is: W, how much of it is on the disk and acknowledged, and how far the primary
// is. Pure; one thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>

#include "common/ids.h"

namespace psp::sp {

class Progress {
 public:
  // `standby_lag_us`: what is on the disk is acknowledged so much later, since a standby that is promoted needs the log from where it stands.
  explicit Progress(GlobalT watermark, std::int64_t standby_lag_us = 0)
      : standby_lag_us_(standby_lag_us), watermark_(watermark) {}

  // Everything that the primary has closed by now must be applied before the state is "streaming".
  void OnApplyStarted(GlobalT watermark) {
    watermark_ = watermark;
    behind_.clear();
    durable_.clear();
    catch_up_t_ = std::max(catch_up_t_, closed_t_);
  }
  void OnApplied(GlobalT watermark, GlobalT durable_t, std::int64_t now_us) {
    watermark_ = watermark;
    if (durable_.empty() || durable_.back().upto_t != durable_t) durable_.push_back({durable_t, now_us});
    while (!behind_.empty() && behind_.front().closed_t <= watermark) behind_.pop_front();
  }
  // The last acknowledgement may have been lost with the connection.
  void OnWelcome(GlobalT closed_t) {
    closed_t_ = closed_t;
    catch_up_t_ = closed_t;
    acked_t_ = -1;
  }
  void OnClosed(GlobalT closed_t) { closed_t_ = std::max(closed_t_, closed_t); }
  // A part of the stream was taken.
  void OnTaken(GlobalT closed_t, std::int64_t now_us) {
    if (!behind_.empty() && now_us - behind_.back().taken_us < kMarkEveryUs) return;
    behind_.push_back({closed_t, now_us});
  }

  // The durable W, if the primary does not know it yet.
  std::optional<GlobalT> TakeAck(std::int64_t now_us) {
    while (!durable_.empty() && durable_.front().since_us + standby_lag_us_ <= now_us) {
      may_ack_t_ = durable_.front().upto_t;
      durable_.pop_front();
    }
    if (may_ack_t_ <= acked_t_) return std::nullopt;
    acked_t_ = may_ack_t_;
    return acked_t_;
  }

  GlobalT watermark() const { return watermark_; }
  GlobalT closed_t() const { return closed_t_; }
  bool has_caught_up() const { return watermark_ >= catch_up_t_; }
  std::int64_t LagMs(std::int64_t now_us) const {
    return behind_.empty() ? 0 : (now_us - behind_.front().taken_us) / 1000;
  }

 private:
  static constexpr std::int64_t kMarkEveryUs = 5000;
  struct Mark {
    GlobalT closed_t = 0;
    std::int64_t taken_us = 0;
  };

  struct Durable {
    GlobalT upto_t = 0;
    std::int64_t since_us = 0;
  };

  std::int64_t standby_lag_us_;
  GlobalT watermark_;
  std::deque<Durable> durable_;  // that is not to be acknowledged yet
  GlobalT may_ack_t_ = -1;
  GlobalT acked_t_ = -1;
  GlobalT closed_t_ = 0;
  GlobalT catch_up_t_ = 0;   // the primary's closed_t at Welcome, or when the apply worker began again
  std::deque<Mark> behind_;  // parts of the stream that are not applied; of many that came together the first
};

}  // namespace psp::sp
