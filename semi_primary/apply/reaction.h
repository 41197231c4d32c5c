// What the apply worker does about an error of PostgreSQL. Pure.
#pragma once

#include "common/pg_errors.h"

namespace psp {

enum class ApplyReaction {
  kAtOnce,  // lost against a local transaction: the same again
  kWait,    // it may pass by itself: the same again after a pause, without limit
  kStop,    // it comes again until somebody removes its cause: COMMITs are refused, and it is tried sometimes
  kBegin,   // the connection is gone: connect, see where the database stands, begin the stream there
};

ApplyReaction ReactionTo(const PgError& error);

}  // namespace psp
