#include "benchmarks/geo/segment_queue.h"

#include <algorithm>

namespace psp::geo {

Time Link::Arrival(Time now, size_t bytes) {
  free_at_ = std::max(free_at_, now);
  if (bytes_per_s_ > 0) {
    const double seconds = static_cast<double>(bytes) / static_cast<double>(bytes_per_s_);
    free_at_ += std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  }
  return free_at_ + delay_;
}

void SegmentQueue::Push(Time now, Segment::Kind kind, std::string_view data) {
  segments_.push_back({kind, link_->Arrival(now, data.size()), std::string(data)});
  bytes_ += data.size();
}

void SegmentQueue::Pop() {
  bytes_ -= segments_.front().data.size();
  segments_.pop_front();
}

void SegmentQueue::Clear() {
  segments_.clear();
  bytes_ = 0;
}

}  // namespace psp::geo
