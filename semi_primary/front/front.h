// Where local commits come from: the commit hook of native mode, or the clients' sessions of views mode.
// All functions are called on the main loop's thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "common/result.h"
#include "semi_primary/front/local_commit.h"

namespace psp::sp {

class Front {
 public:
  virtual ~Front() = default;

  // The error says what is wrong with the address.
  virtual Result<Done, std::string> Start() = 0;

  // For the poll loop; -1: none. If HasInput is false, the next event makes one of them readable.
  virtual std::array<int, 2> fds() = 0;
  virtual bool HasInput() = 0;

  // Takes what has arrived: requests of backends or clients, results of the front's own threads.
  virtual void TakeInput(std::int64_t now_us) = 0;
  // What the core is asked for since the last call, in order.
  virtual std::vector<FrontRequest> TakeRequests() = 0;
  // The core's reply to one ticket. There may be more requests afterwards.
  virtual void Answer(CommitReply reply, std::int64_t now_us) = 0;
  // The apply worker has begun, or begun again. There may be requests afterwards.
  virtual void OnApplyStarted() = 0;

  // The end, in this order. StopAccepting: no new requests. Stop: the answers leave, and the threads end.
  virtual void StopAccepting() = 0;
  virtual void Stop() = 0;
};

}  // namespace psp::sp
