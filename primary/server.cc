#include "primary/server.h"

#include <algorithm>
#include <array>

#include "common/clock.h"
#include "primary/metrics.h"

namespace psp::primary {
namespace {

constexpr std::int64_t kStopUs = 10'000'000;
constexpr std::int64_t kLingerMs = 5000;  // what was said last may stand behind much of the stream
constexpr std::int64_t kLookEveryUs = 100'000;

// Room for a message's envelope and snapshot besides the write-set.
constexpr std::int64_t kEnvelopeBytes = 1 << 20;

SocketOptions ToSocketOptions(const PrimarySettings& settings) {
  return {.message_bytes_max = settings.write_set_bytes_max + kEnvelopeBytes,
          .heartbeat_interval_ms = settings.heartbeat_interval_ms,
          .heartbeat_timeout_ms = settings.heartbeat_timeout_ms,
          .key = settings.key};
}

std::size_t Size(std::int64_t number) { return static_cast<std::size_t>(number); }

Core::Options ToCoreOptions(const PrimarySettings& settings) {
  Core::Options options;
  options.heartbeat_interval_ms = settings.heartbeat_interval_ms;
  options.heartbeat_timeout_us = settings.heartbeat_timeout_ms * 1000;
  options.log_truncation_interval_us = settings.log_truncation_interval_ms * 1000;
  options.write_set_bytes_max = Size(settings.write_set_bytes_max);
  options.inflight_bytes_max = Size(settings.inflight_bytes_max);
  options.hold_timeout_max_us = settings.hold_timeout_max_ms * 1000;
  options.reservations.reservation_max_us = settings.reservation_max_ms * 1000;
  options.scheduler = {Size(settings.batch_transactions_max), Size(settings.batch_bytes_max)};
  options.batch_wait_max_us = settings.batch_wait_max_ms * 1000;
  options.streams = {Size(settings.replicate_bytes_max), Size(settings.stream_bytes_max),
                     Size(settings.recent_bytes_max)};
  options.logged = settings.logged;
  options.standstill.executors = Size(settings.executors);
  options.hearing.hear_us = settings.hear_ms * 1000;
  return options;
}

Core::Start ToCoreStart(const PrimaryState& state) {
  return {state.cluster_id, state.epoch,  state.closed_t, state.truncated_t, state.registry,
          state.tables,     state.epochs, state.kept,     state.newest_ts};
}

auto OtherThan(const std::shared_ptr<ServedServer>& server) {
  return [server](PgSession& session) { return OtherServer(session, server.get()); };
}

auto Proving(const std::shared_ptr<RequiredCopies>& copies) {
  return [copies](PgSession& session, std::stop_token stop) {
    return ProveWhatWasRead(session, *copies, std::move(stop));
  };
}

}  // namespace

Server::Server(const PrimarySettings& settings, PrimaryState state, StopSignals* signals, int tick_ms)
    : settings_(settings),
      since_us_(MonotonicUs()),
      signals_(signals),
      tick_ms_(tick_ms),
      core_(ToCoreOptions(settings), ToCoreStart(state)),
      router_(context_, settings.listen, ToSocketOptions(settings)),
      executors_({.database = settings.database,
                  .epoch = state.epoch,
                  .other_server = OtherThan(state.server),
                  .server = state.server,
                  .copies = state.copies,
                  .may_use_module = settings.certify == "auto"},
                 Size(settings.executors), [this] { OnUsurped(); }),
      catch_up_reader_({.database = settings.database,
                        .epoch = state.epoch,
                        .other_server = OtherThan(state.server),
                        .on_usurped = [this] { OnUsurped(); },
                        .prove = Proving(state.copies)}),
      housekeeper_(
          std::move(state.session),
          {.connect = [epoch = state.epoch, server = state.server](
                          PgSession& session) { return TakeLockAgain(session, epoch, server.get()); },
           .observe_copies = [watch = std::make_shared<CopiesWatch>(state.copies, settings.some_standbys)](
                                 PgSession& session) { return watch->Observe(session); },
           .prove = Proving(state.copies),
           .retention = {settings.tx_log_retention_s, settings.deleted_retention_s},
           .on_usurped = [this] { OnUsurped(); }}),
      watch_(settings.database, state.copies) {}

void Server::OnUsurped() {
  usurped_ = true;
  usurped_wake_up_.Notify();
}

Server::End Server::Run(const std::function<void()>& on_ready) {
  bool is_ready = false;
  while (!usurped_) {
    const std::int64_t now_us = MonotonicUs();
    if (MayStop(now_us)) break;
    if (!is_ready && core_.hearing().is_over()) {
      is_ready = true;
      on_ready();
    }
    Turn();
  }
  if (!usurped_ && !core_.idle()) spdlog::warn("{} transactions are left undecided", core_.undecided());
  if (away_ms_ > 0) SayAway();
  CarryOutActions();
  router_.LingerOnClose(kLingerMs);
  if (usurped_) return End::kUsurped;
  return is_told_to_stop_ ? End::kStopped : End::kHandsOver;
}

// The sockets stay until everybody has heard it. Who is silent counts as gone after heartbeat_timeout_ms.
void Server::SayAway() {
  core_.SayAway(static_cast<std::uint32_t>(away_ms_));
  CarryOutActions();
  const std::int64_t until_us = MonotonicUs() + kStopUs;
  while (!core_.unaware().empty() && MonotonicUs() < until_us) {
    router_.Wait(std::array<int, 0>{}, tick_ms_);
    TakeMessages();
    core_.OnTime(MonotonicUs());
    CarryOutActions();
  }
  for (const std::string& name : core_.unaware()) {
    spdlog::warn("{} has not answered that it waits for the next primary: its COMMITs may fail", name);
  }
}

void Server::Stop(const char* why, std::int64_t now_us) {
  if (stop_by_us_ != 0) return;
  spdlog::info("{}: {} transactions are being decided", why, core_.undecided());
  core_.Stop();
  stop_by_us_ = now_us + kStopUs;
}

bool Server::MayStop(std::int64_t now_us) const {
  return stop_by_us_ != 0 && (core_.idle() || now_us >= stop_by_us_);
}

int Server::WaitMs() const {
  if (!dispatch_us_) return tick_ms_;
  const std::int64_t wait_us = *dispatch_us_ - MonotonicUs();
  return static_cast<int>(std::clamp<std::int64_t>((wait_us + 999) / 1000, 0, tick_ms_));
}

void Server::Turn() {
  const std::array fds = {executors_.fd(), catch_up_reader_.fd(), housekeeper_.fd(),
                          signals_->fd(),  usurped_wake_up_.fd(), metrics_.fd()};
  const auto [decided, read, reported, signalled, usurped, asked] = router_.Wait(fds, WaitMs());
  const std::int64_t now_us = MonotonicUs();
  if (signalled && signals_->TakeSignal() && !is_told_to_stop_) {
    is_told_to_stop_ = true;
    Stop("stopping", now_us);
  }
  const bool all_read = TakeMessages();
  if (decided) TakeBatchResults();
  if (read) TakeCatchUpChunks();
  if (reported) TakeHouseReports();
  if (now_us >= look_us_) LookAtServer(now_us);
  core_.OnTime(now_us);  // before the batches: what has waited until now goes at once
  if (all_read) core_.OnAllRead(now_us);
  CarryOutActions();
  DispatchBatches();
  metrics_.Serve(asked, now_us,
                 {.metrics = [&] { return Metrics(now_us); },
                  .health = [this] { return PrimaryIllness(core_.standstill(), stop_by_us_ != 0); }});
}

std::string Server::Metrics(std::int64_t now_us) const {
  PrimaryNumbers numbers;
  numbers.core = core_.Numbers(now_us);
  numbers.daemon = ReadDaemonNumbers(since_us_, now_us);
  numbers.daemon.epoch = numbers.core.epoch;
  numbers.daemon.closed_t = numbers.core.closed_t;
  numbers.daemon.malformed_messages = router_.malformed_total();
  numbers.daemon.queue_bytes = {
      {"undecided", static_cast<std::int64_t>(numbers.core.undecided_bytes), settings_.inflight_bytes_max},
      {"recent", static_cast<std::int64_t>(numbers.core.recent_bytes), settings_.recent_bytes_max}};
  numbers.daemon.queue_items = {{"held_results", static_cast<std::int64_t>(executors_.held_results()),
                                 static_cast<std::int64_t>(ExecutorPool::kHeldResultsMax)}};
  numbers.sessions_by_module = executors_.sessions_by(CertifyBy::kModule);
  numbers.sessions_by_sql = executors_.sessions_by(CertifyBy::kSql);
  numbers.sight = watch_.sight();
  numbers.stream_bytes_max = settings_.stream_bytes_max;
  return PrimaryMetrics(numbers);
}

void Server::LookAtServer(std::int64_t now_us) {
  look_us_ = now_us + kLookEveryUs;
  Sight sight = watch_.sight();
  if (sight.hand_over_ms) {
    away_ms_ = std::max(away_ms_, *sight.hand_over_ms);
    Stop("this PostgreSQL hands over to its standby", now_us);
  }
  sight.has_session = executors_.has_session();
  sight.trouble = executors_.trouble();
  core_.OnSight(std::move(sight), now_us);
  watch_.Tell(core_.standstill(), now_us);
}

bool Server::TakeMessages() {
  // So many at a time: an SP that sends without end must not keep decisions from being told.
  constexpr int kMessagesMax = 1000;
  std::string route;
  proto::ToPrimary message;
  for (int i = 0; i < kMessagesMax; ++i) {
    if (!router_.Receive(&route, &message)) return true;
    core_.OnMessage(route, &message, MonotonicUs());
    CarryOutActions();
  }
  return false;
}

void Server::DispatchBatches() {
  dispatch_us_.reset();
  while (executors_.has_free()) {
    const std::int64_t now_us = MonotonicUs();
    auto batch = core_.NextBatch(now_us);
    if (!batch) {
      dispatch_us_ = core_.WaitUntilUs(now_us);
      return;
    }
    executors_.Submit(std::move(*batch));
  }
}

void Server::TakeBatchResults() {
  for (const BatchResult& result : executors_.TakeResults()) {
    const Scheduler::Finished finished = core_.Finish(result, MonotonicUs());
    // The next batch first: PostgreSQL works while the messages are written.
    DispatchBatches();
    core_.AnnounceDecisions(finished, MonotonicUs());
    CarryOutActions();
  }
}

void Server::TakeCatchUpChunks() {
  for (CatchUpChunk& result : catch_up_reader_.TakeResults()) {
    if (auto* table = std::get_if<EncodedCopyChunk>(&result)) {
      core_.OnCopyChunk(std::move(*table));
    } else {
      core_.OnLogChunk(std::get<LogChunk>(result));
    }
    CarryOutActions();
  }
}

void Server::TakeHouseReports() {
  for (HouseReport& report : housekeeper_.TakeReports()) {
    core_.OnHouseReport(std::move(report), MonotonicUs());
    CarryOutActions();
  }
}

void Server::CarryOutActions() {
  Core::Actions actions = core_.TakeActions();
  for (const Core::Send& send : actions.sends) {
    if (router_.SendBytes(send.route, send.bytes) == SendOutcome::kUnreachable) core_.OnUnreachable(send);
  }
  for (const ReadLog& work : actions.log_reads) catch_up_reader_.Submit(work);
  for (ReadCopy& work : actions.copy_reads) catch_up_reader_.Submit(std::move(work));
  for (HouseWork& work : actions.house_works) {
    if (!housekeeper_.TrySubmit(work)) core_.OnHouseWorkRefused(work);
  }
  for (const Note& note : actions.notes) Log(note, &logged_);
}

}  // namespace psp::primary
