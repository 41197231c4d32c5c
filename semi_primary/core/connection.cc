#include "semi_primary/core/connection.h"

namespace psp::sp {
namespace {

constexpr std::int64_t kHelloEveryUs = 500'000;

}  // namespace

void Connection::OnMessage(std::int64_t now_us) {
  heard_us_ = now_us;
  unanswered_since_us_ = 0;
  no_answer_told_ = false;
}

void Connection::OnWelcome(Epoch epoch, std::int64_t heartbeat_interval_ms) {
  epoch_ = epoch;
  awaits_welcome_ = false;
  if (heartbeat_interval_ms > 0) heartbeat_interval_us_ = heartbeat_interval_ms * 1000;
}

void Connection::OnHeartbeatReply(std::int64_t sent_us, std::int64_t now_us) { rtt_us_ = now_us - sent_us; }

void Connection::OnLost() {
  epoch_ = 0;
  awaits_welcome_ = false;
  hello_us_ = 0;
  no_answer_told_ = true;  // the loss itself is told
}

bool Connection::HelloIsDue(std::int64_t now_us) const {
  if (is_open() && !awaits_welcome_) return false;
  return hello_us_ == 0 || now_us - hello_us_ >= kHelloEveryUs;
}

bool Connection::TakeNoAnswer(std::int64_t now_us) {
  if (is_open() || no_answer_told_) return false;
  if (unanswered_since_us_ == 0) unanswered_since_us_ = now_us;
  if (now_us - unanswered_since_us_ <= heartbeat_timeout_us_) return false;
  no_answer_told_ = true;
  return true;
}

}  // namespace psp::sp
