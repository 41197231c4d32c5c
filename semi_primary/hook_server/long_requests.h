// Reads requests that would hold up the main loop, on a thread of its own, one after another. Lanes take turns (fair_queue.h).
//
// TryPush, Drop and TakeRead belong to the main loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "common/queue.h"
#include "common/result.h"
#include "common/user_error.h"
#include "semi_primary/hook_server/fair_queue.h"
#include "semi_primary/hook_server/request.h"

namespace psp::sp {

class LongRequests {
 public:
  struct Read {
    std::uint64_t connection = 0;
    Result<HookRequest, UserError> request;
  };

  // How many may wait.
  struct Limits {
    std::size_t lane_requests_max = 0;
    std::size_t requests_max = 0;  // that were read
  };

  LongRequests(std::string token, std::size_t write_set_bytes_max, Limits limits);
  ~LongRequests();
  LongRequests(const LongRequests&) = delete;
  LongRequests& operator=(const LongRequests&) = delete;

  // False when too many wait in the lane.
  bool TryPush(std::uint32_t lane, std::uint64_t connection, std::string line);
  // The connection has gone: what waits is not read. What is being read is read to its end, within the bounds of ParseRequest.
  void Drop(std::uint64_t connection) { waiting_.Drop(connection); }

  // Readable when TakeRead has something.
  int fd() const { return read_.fd(); }
  std::vector<Read> TakeRead() { return read_.TakeAll(); }

 private:
  struct Waiting {
    std::uint64_t connection = 0;
    std::string line;
  };
  void Work(std::stop_token stop);

  const std::string token_;
  const std::size_t write_set_bytes_max_;
  FairQueue<Waiting> waiting_;
  Mailbox<Read> read_;
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace psp::sp
