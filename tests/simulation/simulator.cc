#include "tests/simulation/simulator.h"

namespace psp::simulation {

constexpr std::size_t kTraceLinesMax = 5000;

void Simulator::At(std::int64_t when_us, Action action) {
  agenda_.emplace(std::pair(std::max(when_us, now_us_), ++last_number_), std::move(action));
}

void Simulator::At(std::int64_t when_us, const Owner& owner, Action action) {
  At(when_us, [weak = std::weak_ptr<const void>(owner), action = std::move(action)] {
    if (const Owner alive = weak.lock()) action();
  });
}

void Simulator::RunUntil(std::int64_t until_us) {
  while (violations_.empty() && !agenda_.empty() && agenda_.begin()->first.first <= until_us) {
    auto next = agenda_.extract(agenda_.begin());
    now_us_ = next.key().first;
    next.mapped()();
  }
  now_us_ = until_us;
}

std::int64_t Simulator::Between(std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(high - low + 1));
}

void Simulator::Note(const std::string& line) {
  trace_.push_back(std::to_string(now_us_) + " us  " + line);
  if (trace_.size() > kTraceLinesMax) trace_.pop_front();
}

std::string Simulator::TraceText() const {
  std::string text;
  for (const std::string& line : trace_) text += line + "\n";
  return text;
}

}  // namespace psp::simulation
