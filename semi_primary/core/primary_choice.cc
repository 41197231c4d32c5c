#include "semi_primary/core/primary_choice.h"

namespace psp::sp {
namespace {

constexpr std::int64_t kLookEveryUs = 500'000;
constexpr std::int64_t kLookOftenUs = 100'000;
constexpr std::int64_t kLookAroundEveryUs = 1'000'000;  // while there is a primary

}  // namespace

bool PrimaryChoice::LookIsDue(bool is_connected, std::int64_t now_us) const {
  if (addresses_ == 1) return false;
  const std::int64_t seek_us = now_us < away_until_us_ ? kLookOftenUs : kLookEveryUs;
  return looked_us_ == 0 || now_us - looked_us_ >= (is_connected ? kLookAroundEveryUs : seek_us);
}

bool PrimaryChoice::Prefers(std::size_t address, const EpochStarts& epochs, std::string_view followed,
                            bool is_connected, std::int64_t now_us) const {
  if (epochs.empty()) return false;
  if (is_connected) return address != current_ && IsNewer(epochs, followed);
  return !has_choice(now_us) || (address != current_ && IsNewer(epochs, chosen_));
}

void PrimaryChoice::GoTo(std::size_t address, const EpochStarts& epochs, std::int64_t now_us) {
  current_ = address;
  chosen_us_ = now_us;
  chosen_ = epochs.back().history;
}

void PrimaryChoice::OnLost() {
  chosen_us_ = 0;
  looked_us_ = 0;
}

}  // namespace psp::sp
