#include "semi_primary/apply/apply_worker.h"

#include <fmt/chrono.h>

#include <chrono>
#include <ctime>
#include <variant>

#include "common/clock.h"
#include "common/log.h"

namespace psp::sp {
namespace {

std::string TimeOfDay() {
  const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  return fmt::format("{:%Y-%m-%d %H:%M:%S}Z", fmt::gmtime(now));
}

// A visitor made of functions, one for each kind of request.
template <class... Functions>
struct Each : Functions... {
  using Functions::operator()...;
};
template <class... Functions>
Each(Functions...) -> Each<Functions...>;

}  // namespace

ApplyWorker::ApplyWorker(const Options& options, std::function<void(ApplyEvent)> report)
    : inbox_(options.limits),
      session_(options.conninfo, options.database, options.views_mode, options.may_set_deadlock_timeout),
      core_({.views_mode = options.views_mode,
             .ack_interval_us = options.ack_interval_ms * 1000,
             .conflict_grace_us = options.conflict_grace_ms * 1000,
             .time_of_day = TimeOfDay},
            [this, report = std::move(report)](ApplyEvent event) {
              if (const auto* progress = std::get_if<ApplyProgress>(&event))
                meter_.OnProgress(progress->watermark, MonotonicUs());
              report(std::move(event));
            }) {}

void ApplyWorker::Start() {
  thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
}

void ApplyWorker::Stop() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

void ApplyWorker::Run(const std::stop_token& stop) {
  LogOnce logged;
  bool ended = false;
  while (!ended && !stop.stop_requested()) {
    const ApplyRequest request = core_.Next(MonotonicUs());
    activity_.wanting_since_us = core_.wanting_since_us();
    activity_.has_session = session_.connected();
    Do(request, stop);
    for (const Note& note : core_.TakeNotes()) Log(note, &logged);
    ended = std::holds_alternative<EndWorker>(request);
  }
  activity_.wanting_since_us = 0;
  if (!ended && session_.connected()) {
    core_.Stop();
    Do(core_.Next(MonotonicUs()), stop);
  }
  session_.Close();
}

void ApplyWorker::Do(const ApplyRequest& request, const std::stop_token& stop) {
  std::visit(
      Each{
          [&](const ConnectSession&) {
            if (!session_.Connect(stop)) return;
            activity_.backend_pid = session_.backend_pid();
            core_.OnConnected();
          },
          [&](const ReadPosition&) { core_.OnPosition(session_.Position()); },
          [&](const ClaimApply&) { core_.OnClaimed(session_.Claim()); },
          [&](const ReadCatalog& read) { core_.OnCatalog(session_.Catalog(read.in_open)); },
          [&](const TakeSteps& take) {
            auto steps = inbox_.TakeSteps(stop, take.until_us);
            if (stop.stop_requested()) return;
            const std::int64_t now_us = MonotonicUs();
            if (!steps.empty()) meter_.OnSteps(steps, now_us);
            core_.OnSteps(std::move(steps), now_us);
          },
          [&](const FindMissingProofs& find) { core_.OnMissingProofs(session_.MissingProofs(find.own)); },
          [&](const WaitForBackend& wait) { core_.OnBackend(session_.WaitForBackend(wait.tx_id)); },
          [&](const ApplyTemporaryRows& own) {
            core_.OnTemporaryRows(session_.ApplyTemporary(own.tx_id, own.global_t));
          },
          [&](const RunStatements& run) {
            const auto missing = session_.Run(run);
            if (!missing && core_.IsEnded(activity_.ended_batch)) return core_.OnTookTooLong(missing.error());
            core_.OnStatements(missing, MonotonicUs());
          },
          [&](const LookAlive&) { core_.OnLookAlive(session_.LookAlive()); },
          [&](const Pause& pause) {
            if (pause.disconnect) session_.Close();
            WaitOrStop(stop, pause.ms);
            core_.OnPaused();
          },
          [](const EndWorker&) {},
      },
      request);
}

}  // namespace psp::sp
