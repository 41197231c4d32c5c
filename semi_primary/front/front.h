// Where local commits come from: the commit hook of native mode, or the clients' sessions of views mode.
// Everything is called by the main loop's thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "common/result.h"
#include "semi_primary/core.h"

namespace psp {

class Front {
 public:
  virtual ~Front() = default;

  // The error says what is wrong with the address.
  virtual Result<Done, std::string> Start() = 0;

  // For the poll loop; -1: none. When HasInput says no, one of them becomes readable by the next event.
  virtual std::array<int, 2> fds() = 0;
  virtual bool HasInput() = 0;

  // Hands on to the core what has come since.
  virtual void Take(SemiPrimaryCore* core, std::int64_t now_us) = 0;
  // The core's reply to one ticket. May ask the core for more.
  virtual void Answer(Submissions::Reply reply, SemiPrimaryCore* core, std::int64_t now_us) = 0;
  // The apply worker has begun, or begun anew.
  virtual void OnApplyStarted(SemiPrimaryCore* core) = 0;

  // The end, in this order. StopAccepting: no new requests. Stop: what was answered leaves; its threads end.
  virtual void StopAccepting() = 0;
  virtual void Stop(SemiPrimaryCore* core) = 0;
};

}  // namespace psp
