#include "semi_primary/hook_server/long_requests.h"

#include <utility>

namespace psp::sp {

LongRequests::LongRequests(std::string token, std::size_t write_set_bytes_max, Limits limits)
    : token_(std::move(token)),
      write_set_bytes_max_(write_set_bytes_max),
      waiting_(limits.lane_requests_max),
      read_(limits.requests_max),
      thread_([this](std::stop_token stop) { Work(std::move(stop)); }) {}

LongRequests::~LongRequests() { read_.Close(); }

bool LongRequests::TryPush(std::uint32_t lane, std::uint64_t connection, std::string line) {
  return waiting_.TryPush(lane, {connection, std::move(line)});
}

void LongRequests::Work(std::stop_token stop) {
  while (auto next = waiting_.Pop(stop)) {
    read_.Push({next->connection, ParseRequest(next->line, token_, write_set_bytes_max_)});
  }
}

}  // namespace psp::sp
