// The stream so far: up to where it has been taken, and whether it must be requested again.
// Pure; one thread; times are monotonic microseconds.
#pragma once

#include <cstdint>
#include <string>

#include "common/ids.h"
#include "semi_primary/apply/stream_position.h"

namespace psp::sp {

class StreamIntake {
 public:
  // The apply worker has begun, and the stream must begin again after `watermark`. Steps carry the
  // generation, so that the worker drops those of an older stream.
  void Restart(std::uint64_t generation, GlobalT watermark);
  // The copy ends here, and the stream continues.
  void ContinueAfterCopy(GlobalT snapshot_t) { position_.Reset(snapshot_t); }

  StreamPosition::Verdict Offer(GlobalT from_t, GlobalT closed_t) {
    return position_.Offer(from_t, closed_t);
  }
  void OnTaken();  // what was offered last is well-formed
  // A chunk of a copy has answered the request.
  void OnCopyChunk() { requested_ = false; }
  // What was offered last is malformed: it is asked for again after a while, from where it began.
  void OnMalformed(GlobalT from_t, std::string failure);

  void OnRequested(std::int64_t now_us);
  // After a gap: not while the answer to the last request may be under way.
  bool MayRequestAgain(std::int64_t now_us) const { return !requested_ || IsLate(now_us); }
  bool RetryIsDue(std::int64_t now_us) const { return has_failed() && IsLate(now_us); }

  bool has_started() const { return generation_ != 0; }
  std::uint64_t generation() const { return generation_; }
  GlobalT position() const { return position_.position(); }
  bool requested() const { return requested_; }  // and nothing was taken since
  bool has_failed() const { return !failure_.empty(); }
  const std::string& failure() const { return failure_; }

 private:
  // When the stream is asked for again if it does not come.
  static constexpr std::int64_t kRequestAgainUs = 5'000'000;

  bool IsLate(std::int64_t now_us) const { return now_us - requested_us_ > kRequestAgainUs; }

  std::uint64_t generation_ = 0;  // 0: the apply worker has not begun
  StreamPosition position_;
  bool requested_ = false;
  std::int64_t requested_us_ = 0;
  std::string failure_;
};

}  // namespace psp::sp
