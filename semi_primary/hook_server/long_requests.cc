#include "semi_primary/hook_server/long_requests.h"

#include <utility>

namespace psp::sp {

LongRequests::LongRequests(std::string token, std::size_t write_set_bytes_max, std::size_t requests_max)
    : token_(std::move(token)),
      write_set_bytes_max_(write_set_bytes_max),
      waiting_(requests_max),
      read_(requests_max),
      thread_([this](std::stop_token stop) { Work(std::move(stop)); }) {}

LongRequests::~LongRequests() { read_.Close(); }

bool LongRequests::TryPush(std::uint64_t connection, std::string line) {
  return waiting_.TryPush({connection, std::move(line)});
}

void LongRequests::Work(std::stop_token stop) {
  while (auto next = waiting_.Pop(stop)) {
    read_.Push({next->connection, ParseRequest(next->line, token_, write_set_bytes_max_)});
  }
}

}  // namespace psp::sp
