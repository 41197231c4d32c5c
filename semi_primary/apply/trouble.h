// What keeps the apply worker from going on: tells it to the daemon once, and paces the attempts. Pure.
#pragma once

#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "common/growing_pause.h"
#include "common/note.h"
#include "common/pg_errors.h"
#include "semi_primary/apply/types.h"

namespace psp::sp {

class Trouble {
 public:
  // Below every W, also below that of a semi-primary that joins (-1).
  static constexpr GlobalT kAnySuccess = std::numeric_limits<GlobalT>::min();

  // `now`: the time of day as text.
  Trouble(std::function<void(ApplyEvent)> report, std::function<std::string()> now)
      : report_(std::move(report)), now_(std::move(now)) {}

  // It may pass by itself.
  void Waits(const PgError& error) { Report(false, kAnySuccess, error, ""); }
  // The cause must be removed. It is over when W has come past `watermark`, or with kAnySuccess as soon as
  // anything succeeds. `remedy` follows the message, of which only a part may be told.
  void Stops(GlobalT watermark, const PgError& error, std::string_view remedy = "") {
    Report(true, watermark, error, remedy);
  }
  // How long to wait before the next attempt: longer each time.
  std::int64_t NextPauseMs() { return pause_.NextMs(); }
  // There is a session that has read where the database stands.
  void Began();
  // Something was applied, or made durable.
  void Succeeded(GlobalT watermark);

  std::vector<Note> TakeNotes() { return std::exchange(notes_, {}); }

 private:
  void Report(bool stops, GlobalT watermark, const PgError& error, std::string_view remedy);
  void Over();

  const std::function<void(ApplyEvent)> report_;
  const std::function<std::string()> now_;
  std::string message_;  // what is wrong, as it was reported; empty: nothing
  std::string since_;
  bool stops_ = false;
  GlobalT stopped_at_ = kAnySuccess;
  GrowingPause pause_{100, 5'000};
  std::vector<Note> notes_;
};

}  // namespace psp::sp
