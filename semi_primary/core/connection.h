// The connection to the primary: when Hello and heartbeats are due, when the primary counts as lost, and when
// the operator must be told that it does not answer. Pure; one thread; times are monotonic microseconds.
//
// It is open from a Welcome until its loss. While it is open, a second Hello may be under way (AwaitWelcome):
// then what the primary sends before the next Welcome does not count.
#pragma once

#include <cstdint>

#include "common/ids.h"

namespace psp::sp {

class Connection {
 public:
  explicit Connection(std::int64_t heartbeat_timeout_us) : heartbeat_timeout_us_(heartbeat_timeout_us) {}

  bool is_open() const { return epoch_ != 0; }
  Epoch epoch() const { return epoch_; }  // 0: not open
  bool awaits_welcome() const { return awaits_welcome_; }
  std::int64_t rtt_us() const { return rtt_us_; }  // 0: not known yet

  // Any message of the primary.
  void OnMessage(std::int64_t now_us);
  void OnWelcome(Epoch epoch, std::int64_t heartbeat_interval_ms);  // 0: the interval stays
  void OnHeartbeatReply(std::int64_t sent_us, std::int64_t now_us);
  void OnLost();

  void OnHelloSent(std::int64_t now_us) { hello_us_ = now_us; }
  void OnHeartbeatSent(std::int64_t now_us) { heartbeat_us_ = now_us; }
  // Hello was sent over the open connection.
  void AwaitWelcome() { awaits_welcome_ = true; }

  bool IsSilent(std::int64_t now_us) const { return is_open() && now_us - heard_us_ > heartbeat_timeout_us_; }
  bool HelloIsDue(std::int64_t now_us) const;
  bool HeartbeatIsDue(std::int64_t now_us) const {
    return is_open() && now_us - heartbeat_us_ >= heartbeat_interval_us_;
  }
  // True once, when nobody has answered for heartbeat_timeout since the first call. To be called as long as
  // Hello is being sent.
  bool TakeNoAnswer(std::int64_t now_us);

 private:
  const std::int64_t heartbeat_timeout_us_;
  Epoch epoch_ = 0;
  bool awaits_welcome_ = false;
  std::int64_t heartbeat_interval_us_ = 500'000;
  std::int64_t heard_us_ = 0;
  std::int64_t hello_us_ = 0;  // 0: not sent since the connection was lost
  std::int64_t heartbeat_us_ = 0;
  std::int64_t unanswered_since_us_ = 0;  // 0: the primary has answered since
  bool no_answer_told_ = false;
  std::int64_t rtt_us_ = 0;
};

}  // namespace psp::sp
