// GET /metrics and GET /health of a daemon, on its own poll loop; or nothing, where metrics_listen is empty.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/metrics/http_responder.h"
#include "common/result.h"

namespace psp {

// 200, or 503 with the reason in one line. Everybody who reaches the port reads it: it must not hold rows or PostgreSQL's messages.
HttpAnswer HealthAnswer(const std::string& reason);

// The loop's.
class MetricsEndpoint {
 public:
  struct Answers {
    std::function<std::string()> metrics;  // the text
    std::function<std::string()> health;   // why it is not healthy; empty: it is
  };

  // Before Serve; an empty address: none. The error says what is wrong with it.
  Result<Done, std::string> Listen(const std::string& address);

  // For the loop; -1: none.
  int fd() const { return responder_ ? responder_->fd() : -1; }
  // In each turn of the loop, which turns several times a second.
  void Serve(bool is_ready, std::int64_t now_us, const Answers& answers);

 private:
  std::unique_ptr<HttpResponder> responder_;
  std::int64_t served_us_ = 0;
};

// What is answered to the request.
HttpAnswer AnswerTo(const HttpRequest& request, const MetricsEndpoint::Answers& answers);

}  // namespace psp
