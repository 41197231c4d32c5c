// What the runners of adjust and of balance have in common: settings, board, session, and the values that are
// theirs.
#pragma once

#include <string>
#include <utility>

#include "mrv/columns.h"
#include "mrv/settings.h"
#include "mrv/split_values.h"
#include "mrv/window_board.h"
#include "mrv/worker_session.h"

namespace psp::mrv {

// To be derived from; used by the worker's thread only.
class ValueWorker {
 protected:
  // Number `runner` of `runners` of that name. `settings` and `board` must outlive this.
  ValueWorker(const MrvSettings& settings, WindowBoard* board, std::string name, int runner,
              std::int64_t runners)
      : settings_(settings),
        board_(board),
        session_(settings, std::move(name), runner),
        split_(runner, runners, settings.split_refresh_ms) {
    PrepareColumns(&session_);
    SplitValues::Prepare(&session_);
  }
  ~ValueWorker() = default;

  void EndRound() {
    session_.CountRound();
    session_.WriteSelf();
  }

  const MrvSettings& settings_;
  WindowBoard* const board_;
  WorkerSession session_;
  SplitValues split_;
};

}  // namespace psp::mrv
