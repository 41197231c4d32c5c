// How many outcomes may be asked for at an SP. Any role may ask about any id, and the primary remembers each
// id: without a bound, questions about random ids would fill its tx_log. Each role has a part of what all have together, so that none
// can use up what others need. Pure; one thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_map>

namespace psp::sp {

class QuestionAllowance {
 public:
  static constexpr std::int64_t kAtOnce = 10'000;  // every client of an SP that was lost, and more
  static constexpr std::int64_t kPerSecond = 20;   // in the long run
  static constexpr std::int64_t kAtOnceOfRole = kAtOnce / 5;
  static constexpr std::int64_t kPerSecondOfRole = kPerSecond / 5;

  // Whether the role may ask one more now.
  bool Allow(std::uint32_t role, std::int64_t now_us) {
    if (of_roles_.size() >= kRolesMax)
      std::erase_if(of_roles_, [&](const auto& item) { return item.second.IsWhole(now_us); });
    Bucket& of_role = of_roles_.try_emplace(role, kAtOnceOfRole, kPerSecondOfRole).first->second;
    if (!of_role.Has(now_us) || !of_all_.Has(now_us)) return false;
    of_role.Take();
    of_all_.Take();
    return true;
  }

 private:
  static constexpr std::size_t kRolesMax = 1000;

  class Bucket {
   public:
    Bucket(std::int64_t at_once, std::int64_t per_second)
        : us_for_each_(1'000'000 / per_second), ahead_us_(at_once * us_for_each_) {}

    bool Has(std::int64_t now_us) {
      next_us_ = std::max(next_us_, now_us - ahead_us_);
      return next_us_ + us_for_each_ <= now_us;
    }
    void Take() { next_us_ += us_for_each_; }
    bool IsWhole(std::int64_t now_us) const { return next_us_ <= now_us - ahead_us_; }

   private:
    std::int64_t us_for_each_;
    std::int64_t ahead_us_;
    // The time at which all questions so far would have been allowed one by one, at most `ahead_us_` ago.
    std::int64_t next_us_ = INT64_MIN;
  };

  Bucket of_all_{kAtOnce, kPerSecond};
  std::unordered_map<std::uint32_t, Bucket> of_roles_;
};

}  // namespace psp::sp
