// What keeps the apply worker from going on: tells it to the daemon once, and waits between the attempts.
// Owned and used by the worker's thread.
#pragma once

#include <functional>
#include <stop_token>
#include <string>

#include "common/growing_pause.h"
#include "common/pg_errors.h"
#include "semi_primary/apply/types.h"

namespace psp {

class Trouble {
 public:
  explicit Trouble(std::function<void(ApplyEvent)> report) : report_(std::move(report)) {}

  // It may pass by itself.
  void Waits(const PgError& error) { Note(false, -1, error.sqlstate, error.message); }
  // Somebody must remove the cause. Over when W has come past `watermark`; -1: as soon as anything succeeds.
  void Stops(GlobalT watermark, const std::string& sqlstate, const std::string& message) {
    Note(true, watermark, sqlstate, message);
  }
  // A growing pause. True when stop was requested.
  bool Pause(std::stop_token stop);
  // There is a session that has read where the database stands.
  void Began();
  // Something was applied, or made durable.
  void Succeeded(GlobalT watermark);

 private:
  void Note(bool stops, GlobalT watermark, const std::string& sqlstate, const std::string& message);
  void Over();

  const std::function<void(ApplyEvent)> report_;
  std::string message_;  // what is wrong, as it was told; empty: nothing
  std::string since_;
  bool stops_ = false;
  GlobalT stopped_at_ = -1;
  GrowingPause pause_{100, 5'000};
};

}  // namespace psp
