// Sessions that wait until everything up to a number is applied here: psp.wait_for, with a token of another semi-primary.
// Each gets its answer soon, also when it is "not yet", and asks again: so it can be cancelled in between.
// Pure; one thread; time (monotonic microseconds) is an argument.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "semi_primary/front/local_commit.h"

namespace psp::sp {

class WatermarkWaits {
 public:
  void Ask(const ReachQuestion& question, GlobalT watermark, std::int64_t now_us) {
    if (question.global_t <= watermark) return Answer(question.ticket, true);
    waits_.push_back({question.ticket, question.global_t, now_us});
  }

  void AskerGone(Ticket ticket) {
    std::erase_if(waits_, [&](const Wait& wait) { return wait.ticket == ticket; });
  }

  void OnApplied(GlobalT watermark) {
    AnswerThose([&](const Wait& wait) { return wait.global_t <= watermark; }, true);
  }

  // To be called several times a second.
  void OnTime(std::int64_t now_us) {
    AnswerThose([&](const Wait& wait) { return now_us - wait.since_us >= kAnswerAfterUs; }, false);
  }

  // What to send since the last call.
  std::vector<CommitReply> TakeReplies() { return std::exchange(replies_, {}); }

 private:
  static constexpr std::int64_t kAnswerAfterUs = 200'000;

  struct Wait {
    Ticket ticket = 0;
    GlobalT global_t = 0;
    std::int64_t since_us = 0;
  };

  template <class Which>
  void AnswerThose(const Which& which, bool yes) {
    std::erase_if(waits_, [&](const Wait& wait) {
      if (!which(wait)) return false;
      Answer(wait.ticket, yes);
      return true;
    });
  }

  void Answer(Ticket ticket, bool yes) { replies_.push_back({ticket, Reached{yes}}); }

  std::vector<Wait> waits_;  // as many as connections at most
  std::vector<CommitReply> replies_;
};

}  // namespace psp::sp
