#include "semi_primary/apply/reaction.h"

namespace psp {

ApplyReaction ReactionTo(const PgError& error) {
  switch (error.reaction) {
    case PgReaction::kReconnect:
    case PgReaction::kInDoubt:
      return ApplyReaction::kBegin;
    case PgReaction::kRetry:
      return ApplyReaction::kAtOnce;
    case PgReaction::kAbort:
      break;
  }
  return MayPass(error.sqlstate) ? ApplyReaction::kWait : ApplyReaction::kStop;
}

}  // namespace psp
