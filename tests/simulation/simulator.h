// Virtual time, chance and the record of one run: everything that makes a run repeatable from its seed.
// One thread. Nothing in a run may look at the real clock, at addresses or at the order of unordered
// containers.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace psp::simulation {

class Simulator {
 public:
  // What an action belongs to: the action is dropped when its owner is gone by then (a crashed process).
  using Owner = std::shared_ptr<const void>;
  using Action = std::function<void()>;

  Simulator(std::uint64_t seed, bool tracing) : random_(seed), tracing_(tracing) {}

  std::int64_t now_us() const { return now_us_; }
  void At(std::int64_t when_us, Action action);
  void After(std::int64_t delay_us, Action action) { At(now_us_ + delay_us, std::move(action)); }
  void After(std::int64_t delay_us, const Owner& owner, Action action) {
    At(now_us_ + delay_us, owner, std::move(action));
  }
  void At(std::int64_t when_us, const Owner& owner, Action action);

  // Runs everything up to `until_us`, or until the first violation; then now_us() == until_us.
  void RunUntil(std::int64_t until_us);

  std::int64_t Between(std::int64_t low, std::int64_t high);  // both included
  bool Chance(std::int64_t percent) { return Between(1, 100) <= percent; }
  std::uint64_t Number() { return random_(); }

  template <class... Parts>
  void Trace(const Parts&... parts) {
    if (tracing_) Note(Join(parts...));
  }
  // Something that must never happen. The run ends.
  template <class... Parts>
  void Violation(const Parts&... parts) {
    violations_.push_back(Join(parts...));
    Note("VIOLATION " + violations_.back());
  }
  const std::vector<std::string>& violations() const { return violations_; }
  std::string TraceText() const;

 private:
  template <class... Parts>
  static std::string Join(const Parts&... parts) {
    std::ostringstream out;
    (out << ... << parts);
    return out.str();
  }
  void Note(const std::string& line);

  std::mt19937_64 random_;
  const bool tracing_;
  std::int64_t now_us_ = 0;
  std::uint64_t last_number_ = 0;
  std::map<std::pair<std::int64_t, std::uint64_t>, Action> agenda_;  // by time, then by order of entry
  std::deque<std::string> trace_;
  std::vector<std::string> violations_;
};

}  // namespace psp::simulation
