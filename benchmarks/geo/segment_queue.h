#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

namespace psp::geo {

using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;

// One direction of a wide-area link: how long it takes and how much it carries. Every connection through the
// link shares the bandwidth. Pure; one thread.
class Link {
 public:
  // bytes_per_s 0: as much as one likes.
  Link(Clock::duration delay, int64_t bytes_per_s) : delay_(delay), bytes_per_s_(bytes_per_s) {}

  // When the last of `bytes` that are sent now arrives. Never earlier than what an earlier call returned.
  Time Arrival(Time now, size_t bytes);

 private:
  const Clock::duration delay_;
  const int64_t bytes_per_s_;
  Time free_at_{};  // when the bytes sent so far have left the sender
};

// What travels: bytes, or the end of the stream, or a reset.
struct Segment {
  enum class Kind { kData, kEnd, kReset };
  Kind kind = Kind::kData;
  Time due;
  std::string data;
};

// The segments under way in one direction of one connection, in order. Pure; one thread.
class SegmentQueue {
 public:
  SegmentQueue(Link& link, size_t bytes_max) : link_(&link), bytes_max_(bytes_max) {}

  void Push(Time now, Segment::Kind kind, std::string_view data = {});
  void Pop();
  void Clear();

  bool Empty() const { return segments_.empty(); }
  bool Full() const { return bytes_ >= bytes_max_; }
  const std::deque<Segment>& segments() const { return segments_; }

 private:
  Link* link_;
  const size_t bytes_max_;
  std::deque<Segment> segments_;
  size_t bytes_ = 0;
};

}  // namespace psp::geo
