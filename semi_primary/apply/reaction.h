// What the apply worker does about an error of PostgreSQL. Pure.
#pragma once

#include <cstdint>

#include "common/pg_errors.h"

namespace psp::sp {

enum class ApplyReaction {
  kAgain,  // lost against a local transaction: the same again, after PauseAfterLosses
  kWait,   // it may pass by itself: the same again after a pause, without limit
  kStop,   // it comes again until somebody removes its cause: COMMITs are refused, and it is tried sometimes
  kBegin,  // the connection is gone: connect, see where the database stands, begin the stream there
};

ApplyReaction ReactionTo(const PgError& error);

// How long to wait after so many losses in a row. Local transactions need none, or little: deadlock_timeout makes
// each attempt last. But code of a table's owner may raise 40001 each time.
std::int64_t PauseAfterLosses(int losses);

// From such a pause on, what keeps the worker is no local transaction, and is told.
inline constexpr std::int64_t kToldPauseMs = 1'000;

}  // namespace psp::sp
