#include "common/metrics/metrics_endpoint.h"

#include <utility>

#include "common/metrics/text_format.h"

namespace psp {
namespace {

constexpr std::int64_t kLookForLateUs = 50'000;

}  // namespace

HttpAnswer HealthAnswer(const std::string& reason) {
  return reason.empty() ? HttpAnswer{200, "ok\n"} : HttpAnswer{503, reason + "\n"};
}

HttpAnswer AnswerTo(const HttpRequest& request, const MetricsEndpoint::Answers& answers) {
  if (request.path == "/metrics") return {200, answers.metrics(), kMetricsContentType};
  if (request.path == "/health") return HealthAnswer(answers.health());
  return NotFound();
}

Result<Done, std::string> MetricsEndpoint::Listen(const std::string& address) {
  if (address.empty()) return Done{};
  auto made = HttpResponder::Listen(address, {});
  if (!made.ok()) return made.error();
  responder_ = std::move(made.value());
  return Done{};
}

void MetricsEndpoint::Serve(bool is_ready, std::int64_t now_us, const Answers& answers) {
  if (!responder_ || (!is_ready && now_us - served_us_ < kLookForLateUs)) return;
  served_us_ = now_us;
  responder_->Serve(now_us, [&](const HttpRequest& request) { return AnswerTo(request, answers); });
}

}  // namespace psp
