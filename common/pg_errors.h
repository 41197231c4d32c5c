// PostgreSQL's errors as the daemons look at them. Pure, apart from their number.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/result.h"

namespace psp {

enum class PgReaction {
  kRetry,      // serialization failure or deadlock: run the same again
  kAbort,      // the statement's own error: running it again gives it again
  kReconnect,  // the connection is gone and the transaction with it: nothing happened
  kInDoubt,    // the connection went while committing: it happened or it did not
};

struct PgError {
  PgReaction reaction = PgReaction::kAbort;
  std::string sqlstate;  // empty when the error did not come from the server
  std::string message;   // one line, without a trailing newline
};

template <class T>
using PgResult = Result<T, PgError>;

// Whether the same statement may succeed later with the same data: it was cancelled, the server lacked disk,
// memory or connections, was shut down or read-only, or another transaction got the lock. Every other error
// comes again until its cause is removed.
bool MayPass(std::string_view sqlstate);

// Of all sessions of this process, for its metrics. Any thread.
void CountPgError(PgReaction reaction);
std::uint64_t PgErrorsSeen(PgReaction reaction);

// Libpq's message in one line, for a log: it ends with newlines, and has LINE and CONTEXT lines.
std::string OneLine(std::string text);

}  // namespace psp
