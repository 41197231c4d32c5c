#include "semi_primary/apply/reaction.h"

#include <algorithm>

namespace psp::sp {
namespace {

constexpr int kLossesWithoutPause = 3;
constexpr int kDoublingsMax = 20;  // no overflow
constexpr std::int64_t kPauseMaxMs = 5'000;

}  // namespace

ApplyReaction ReactionTo(const PgError& error) {
  switch (error.reaction) {
    case PgReaction::kReconnect:
    case PgReaction::kInDoubt:
      return ApplyReaction::kBegin;
    case PgReaction::kRetry:
      return ApplyReaction::kAgain;
    case PgReaction::kAbort:
      break;
  }
  return MayPass(error.sqlstate) ? ApplyReaction::kWait : ApplyReaction::kStop;
}

std::int64_t PauseAfterLosses(int losses) {
  if (losses <= kLossesWithoutPause) return 0;
  const int doublings = std::min(losses - kLossesWithoutPause - 1, kDoublingsMax);
  return std::min(std::int64_t{1} << doublings, kPauseMaxMs);
}

}  // namespace psp::sp
