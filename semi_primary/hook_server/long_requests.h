// Reads the requests that would hold up the main loop, on a thread of its own, one after another.
//
// Push and TakeRead belong to the main loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "common/queue.h"
#include "common/result.h"
#include "common/user_error.h"
#include "semi_primary/hook_server/request.h"

namespace psp::sp {

class LongRequests {
 public:
  struct Read {
    std::uint64_t connection = 0;
    Result<HookRequest, UserError> request;
  };

  // `requests_max`: how many may wait.
  LongRequests(std::string token, std::size_t write_set_bytes_max, std::size_t requests_max);
  ~LongRequests();
  LongRequests(const LongRequests&) = delete;
  LongRequests& operator=(const LongRequests&) = delete;

  // False when too many wait.
  bool TryPush(std::uint64_t connection, std::string line);

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
  BoundedQueue<Waiting> waiting_;
  Mailbox<Read> read_;
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace psp::sp
