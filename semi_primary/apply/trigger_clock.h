// For how long triggers for rows of others have run in the apply worker's session. Pure: no database, no clock.
//
// The name of what the worker does tells that they may run, and differs from one statement to the next. Time is counted from when a name was first seen
// here, so that a jump of the server's clock blames nobody. The time is that of the rows' writing, too: one that takes long by itself is ended in vain,
// and must get through when it is tried again. So each end doubles the time, for an hour or, if it is longer, twice that time. Code of a trigger may catch a cancel: a
// statement that is still there when its time is over again has done so.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace psp::sp {

// Owned and used by one thread.
class TriggerClock {
 public:
  explicit TriggerClock(std::int64_t timeout_us) : timeout_us_(timeout_us), limit_us_(timeout_us) {}

  // `name`: the session's, as seen now. `batch` differs from batch to batch.
  void Saw(std::int64_t now_us, std::int64_t batch, const std::string& name) {
    if (batch == batch_ && name == name_) return;
    batch_ = batch;
    name_ = name;
    since_us_ = now_us;
  }
  struct Overdue {
    std::string name;    // of what is to be ended; empty: nothing is
    bool again = false;  // it has been ended before, and goes on
  };
  // The name's time begins again.
  Overdue TakeOverdue(std::int64_t now_us, std::int64_t batch) {
    const bool runs = batch == batch_ && name_.find(kMark) != std::string::npos;
    if (ended_us_ != 0 && now_us - ended_us_ > std::max(kCalmUs, 2 * limit_us_)) limit_us_ = timeout_us_;
    if (!runs || now_us - since_us_ <= limit_us_) return {};
    since_us_ = ended_us_ = now_us;
    limit_us_ *= 2;
    return {name_, std::exchange(ended_name_, name_) == name_};
  }

 private:
  static constexpr std::int64_t kCalmUs = 3'600'000'000;
  static constexpr std::string_view kMark = ", triggers since ";  // psp.watch_triggers

  const std::int64_t timeout_us_;
  std::int64_t limit_us_;      // now; timeout_us_ or a multiple of it
  std::int64_t ended_us_ = 0;  // when somebody was ended last; 0: nobody was
  std::string ended_name_;     // what was ended last
  std::int64_t batch_ = 0;
  std::string name_;
  std::int64_t since_us_ = 0;
};

}  // namespace psp::sp
