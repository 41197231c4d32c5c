#include "primary/core/standstill.h"

#include <algorithm>
#include <utility>

namespace psp::primary {
namespace {

constexpr const char* kNoSpaceState = "53100";

std::string StandbyText(const Sight& sight) {
  return "COMMITs wait for synchronous standbys of the primary's PostgreSQL: " +
         std::to_string(sight.copied) + " of " + std::to_string(sight.copies) + " have what was written, " +
         std::to_string(sight.connected) + " are connected";
}

}  // namespace

const char* NameOf(Standstill::Cause cause) {
  switch (cause) {
    case Standstill::Cause::kNoAnswer:
      return "no answer";
    case Standstill::Cause::kNoSpace:
      return "no space";
    case Standstill::Cause::kBatchFails:
      return "a batch fails";
    case Standstill::Cause::kStandby:
      return "standby";
    case Standstill::Cause::kNoDecision:
      return "no batch ends";
    case Standstill::Cause::kHearing:
      return "hearing";
    case Standstill::Cause::kAhead:
      return "ahead";
  }
  return "";
}

std::string ShortText(const Standstill::Reason& reason) {
  constexpr std::size_t kBytesMax = 35;
  std::string text = NameOf(reason.cause);
  if (!reason.names.empty()) text += ": " + reason.names;
  return text.size() <= kBytesMax ? text : text.substr(0, kBytesMax - 3) + "...";
}

void Standstill::OnBatchSent(std::int64_t now_us) {
  if (under_way_++ == 0) sent_us_ = now_us;
}

void Standstill::OnDecided(std::int64_t now_us) {
  if (under_way_ > 0) --under_way_;
  decided_us_ = now_us;
}

// The watch may not have looked yet.
void Standstill::OnSight(Sight sight, std::int64_t now_us) {
  if (!std::exchange(is_watched_, true)) sight_.looked_us = now_us;
  sight.looked_us = std::max(sight.looked_us, sight_.looked_us);
  sight_ = std::move(sight);
}

// The cause that explains most comes first.
std::optional<Standstill::Reason> Standstill::Look(std::int64_t now_us) const {
  if (!is_watched_) return std::nullopt;
  if (!sight_.error.empty() && !sight_.has_session) {
    return Reason{Cause::kNoAnswer, "the primary's PostgreSQL does not answer: " + sight_.error, now_us};
  }
  if (now_us - sight_.looked_us > limits_.silent_us) {
    return Reason{Cause::kNoAnswer, "the primary's PostgreSQL does not answer: it is silent",
                  sight_.looked_us};
  }
  if (sight_.trouble && sight_.trouble->sqlstate == kNoSpaceState) {
    return Reason{Cause::kNoSpace, "the primary's PostgreSQL has no space: " + sight_.trouble->message,
                  now_us};
  }
  if (sight_.trouble) {
    return Reason{Cause::kBatchFails,
                  "a batch fails again and again at the primary's PostgreSQL: " + sight_.trouble->sqlstate +
                      " " + sight_.trouble->message,
                  now_us};
  }
  if (!sight_.has_session)
    return Reason{Cause::kNoAnswer, "the primary's PostgreSQL gives psp-primary no session: see its log",
                  now_us};
  if (sight_.copied < sight_.copies) return Reason{Cause::kStandby, StandbyText(sight_), now_us};
  const std::int64_t progress_us = std::max(sent_us_, decided_us_);
  if (under_way_ >= limits_.executors && now_us - progress_us > limits_.undecided_us) {
    return Reason{Cause::kNoDecision,
                  "no batch ends at the primary's PostgreSQL: see pg_stat_activity there, for a lock perhaps",
                  progress_us};
  }
  return std::nullopt;
}

// One executor's batch may fail for hours while others decide now and then: who is told each time, is told nothing.
void Standstill::Adapt(bool has_cause, bool was_told, bool is_told, std::int64_t now_us) {
  if (has_cause) seen_us_ = now_us;
  if (has_cause && was_told && !is_told) {
    told_after_us_ = std::min(2 * told_after_us_, limits_.told_after_max_us);
  } else if (now_us - seen_us_ >= limits_.calm_us) {
    told_after_us_ = limits_.told_after_us;
  }
}

std::optional<Note> Standstill::OnTime(std::int64_t now_us) {
  std::optional<Reason> found = Look(now_us);
  if (found) {
    if (!cause_us_) cause_us_ = found->since_us;
    found->since_us = std::max(*cause_us_, decided_us_);
  } else {
    cause_us_.reset();
  }
  const bool is_told = found && found->age_us(now_us) >= told_after_us_;
  Adapt(found.has_value(), reason_.has_value(), is_told, now_us);
  const std::optional<Reason> before = std::exchange(reason_, is_told ? std::move(found) : std::nullopt);
  if (!reason_ && !before) return std::nullopt;
  if (!reason_) {
    return Note{.level = Note::Level::kInfo,
                .text = "transactions are decided again, after " +
                        std::to_string(before->age_us(now_us) / 1000) + " ms",
                .event = "standstill_over"};
  }
  if (before && before->cause == reason_->cause) return std::nullopt;
  return Note{.level = Note::Level::kError,
              .text = "no transaction can be decided: " + reason_->text,
              .event = "standstill"};
}

}  // namespace psp::primary
