// Evens out the amounts of records, again and again (thesis, section 4.3.4).
#pragma once

#include <stop_token>

#include "mrv/backoff.h"
#include "mrv/value_worker.h"

namespace psp::mrv {

// One runner of several; each has its own values. A value that adjust has at the moment is left to the next
// round.
class BalanceWorker : private ValueWorker {
 public:
  // `settings` and `board` must outlive this.
  BalanceWorker(const MrvSettings& settings, WindowBoard* board, int runner);

  // The thread's body; returns when stop is requested.
  void Run(std::stop_token stop);

 private:
  void Round(std::stop_token stop);
  void BalanceOne(const Column& column, const ValueId& value, std::stop_token stop);

  Backoff backoff_{64};  // rounds
};

}  // namespace psp::mrv
