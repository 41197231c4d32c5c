// Whether the primary can decide, and if not: why, and since when (docs/decisions/53-a-standstill-is-told.md). Pure; one thread; time
// (monotonic microseconds) is an argument.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "common/note.h"
#include "common/pg_errors.h"

namespace psp::primary {

// What the threads see of the primary's PostgreSQL.
struct Sight {
  // Of the watch (primary/server_watch.h), which looks about twice a second:
  std::int64_t looked_us = 0;  // when the last look ended, with an answer or an error
  std::string error{};         // why there was no answer; empty: there was one
  int copies = 0;              // synchronous standbys that must have what is decided
  int connected = 0;           // standbys
  int copied = 0;              // of these have what was written at an earlier look
  std::optional<std::int64_t>
      hand_over_ms{};  // the server hands over to a standby, for which COMMITs may wait so long
  // Of the executors:
  bool has_session = true;           // one of them, at least
  std::optional<PgError> trouble{};  // of a batch that is tried again
};

class Standstill {
 public:
  enum class Cause {
    kNoAnswer,    // its PostgreSQL is away, or silent
    kNoSpace,     // a batch fails since the disk is full
    kBatchFails,  // … for another reason
    kStandby,     // synchronous standbys lack what is decided
    kNoDecision,  // all executors have batches, and none ends
    kHearing,     // the daemon has just started (primary/core/hearing.h)
    kAhead,       // the same, and a semi-primary has what this database lacks
  };
  struct Reason {
    Cause cause = Cause::kNoAnswer;
    std::string text;  // for people; may have PostgreSQL's message
    std::int64_t since_us = 0;
    std::string names{};  // the semi-primaries that it is about

    std::int64_t age_us(std::int64_t now_us) const { return now_us - since_us; }
  };
  struct Limits {
    std::int64_t told_after_us = 2'000'000;  // of a cause, without a decision since
    // A decision ends a standstill, also while its cause lasts: then the next one is told after twice the time, up to this.
    std::int64_t told_after_max_us = 30'000'000;
    std::int64_t calm_us = 60'000'000;       // without a cause, before told_after_us counts again
    std::int64_t silent_us = 5'000'000;      // without a look
    std::int64_t undecided_us = 10'000'000;  // without a decision, while all executors have batches
    std::size_t executors = 1;               // with one that is free, a long batch holds up no other
  };

  explicit Standstill(const Limits& limits) : limits_(limits) {}

  void OnBatchSent(std::int64_t now_us);
  // A batch was decided, and its decisions may be told.
  void OnDecided(std::int64_t now_us);
  void OnSight(Sight sight, std::int64_t now_us);

  // To be called several times a second. A line for the log when a standstill begins, gets another cause, or ends.
  std::optional<Note> OnTime(std::int64_t now_us);

  // Nothing: it can decide.
  const std::optional<Reason>& reason() const { return reason_; }

 private:
  std::optional<Reason> Look(std::int64_t now_us) const;
  void Adapt(bool has_cause, bool was_told, bool is_told, std::int64_t now_us);

  const Limits limits_;
  Sight sight_;
  bool is_watched_ = false;
  std::size_t under_way_ = 0;             // batches
  std::int64_t sent_us_ = 0;              // the first of them
  std::int64_t decided_us_ = 0;           // the last decision
  std::optional<std::int64_t> cause_us_;  // since then there is a cause
  std::optional<Reason> reason_;
  std::int64_t told_after_us_ = limits_.told_after_us;
  std::int64_t seen_us_ = 0;  // a cause, for the last time
};

// In one or two words.
const char* NameOf(Standstill::Cause cause);
// The same, then the names, in 35 bytes at most.
std::string ShortText(const Standstill::Reason& reason);
inline constexpr std::array<Standstill::Cause, 7> kStandstillCauses = {
    Standstill::Cause::kNoAnswer, Standstill::Cause::kNoSpace,    Standstill::Cause::kBatchFails,
    Standstill::Cause::kStandby,  Standstill::Cause::kNoDecision, Standstill::Cause::kHearing,
    Standstill::Cause::kAhead};

}  // namespace psp::primary
