#include "semi_primary/server.h"

#include <algorithm>
#include <array>
#include <random>
#include <utility>

#include "common/clock.h"
#include "common/log.h"
#include "common/message_json.h"
#include "semi_primary/hook_server/hook_front.h"
#include "semi_primary/metrics.h"
#include "semi_primary/session/session_front.h"

namespace psp::sp {
namespace {

constexpr int kTickMs = 50;
constexpr std::int64_t kStatusEveryUs = 500'000;
constexpr std::int64_t kMrvReportEveryUs = 500'000;
constexpr std::int64_t kLingerMs = 1000;  // for the goodbye
constexpr std::size_t kMailboxItems = 1 << 16;

std::uint64_t DrawIncarnation() {
  std::random_device device;
  return (std::uint64_t{device()} << 32 | device()) | 1;
}

SocketOptions ToSocketOptions(const SemiPrimarySettings& settings) {
  SocketOptions options;
  options.heartbeat_timeout_ms = settings.heartbeat_timeout_ms;
  options.key = settings.key;
  return options;
}

Core::Options ToCoreOptions(const SemiPrimarySettings& settings, const Identity& identity) {
  Core::Options options;
  options.cluster_id = identity.cluster_id;
  options.sp_id = identity.sp_id;
  options.name = settings.name;
  options.incarnation = DrawIncarnation();
  options.watermark = identity.watermark;
  options.joining = identity.joining;
  options.may_lack_own = identity.may_lack_own;
  options.epochs = identity.saved.epochs;
  options.follows_any = identity.saved.follows_any;
  options.addresses = SplitEndpoints(settings.primary).size();
  options.heartbeat_timeout_us = settings.heartbeat_timeout_ms * 1000;
  options.commit_timeout_us = settings.commit_timeout_ms * 1000;
  options.standby_lag_us = settings.standby_lag_ms * 1000;
  options.disconnected_grace_us = settings.disconnected_grace_ms * 1000;
  options.waiting_bytes_max = static_cast<std::size_t>(settings.waiting_bytes_max);
  options.local_certification = settings.local_certification;
  options.logged = settings.logged;
  return options;
}

SessionFront::Options ToSessionOptions(const SemiPrimarySettings& settings, const Identity& identity) {
  return {.conninfo = settings.database,
          .database = identity.database,
          .listen = settings.client_listen,
          .local_workers = static_cast<std::size_t>(settings.lworkers),
          .sessions = {.sp_id = identity.sp_id,
                       .wait_for_apply = settings.wait_for_apply,
                       .write_set_bytes_max = static_cast<std::size_t>(settings.write_set_bytes_max),
                       .commit_timeout_us = settings.commit_timeout_ms * 1000},
          .gc = {.conninfo = settings.database,
                 .database = identity.database,
                 .interval_ms = settings.gc_interval_ms,
                 .running_timeout_ms = settings.running_timeout_ms,
                 .forget_after_ms = settings.forget_after_ms}};
}

HookServer::Options ToHookOptions(const SemiPrimarySettings& settings, const Identity& identity) {
  HookServer::Options options;
  options.address = *ParseListenAddress(settings.hook_listen);
  options.token = identity.token;
  options.database = identity.database;
  options.write_set_bytes_max = static_cast<std::size_t>(settings.write_set_bytes_max);
  options.connections_max = static_cast<std::size_t>(settings.hook_connections_max);
  if (!options.address.tls) return options;
  options.tls_files = {settings.hook_certificate_file, settings.hook_key_file};
  options.tls_host = ParseEndpoint(settings.hook_endpoint)->host;
  return options;
}

// In views mode clients wait until their commits are applied, in the order of the stream.
ApplyInbox::Limits ToInboxLimits(const SemiPrimarySettings& settings) {
  ApplyInbox::Limits limits;
  limits.transactions_max = static_cast<std::size_t>(settings.apply_batch_transactions_max);
  limits.bytes_max = static_cast<std::size_t>(settings.apply_batch_bytes_max);
  limits.pace.rows_us = settings.views_mode ? 0 : settings.apply_pace_ms * 1000;
  return limits;
}

std::unique_ptr<Front> MakeFront(const SemiPrimarySettings& settings, const Identity& identity,
                                 zmq::context_t* context, CommitsInFlight* in_flight) {
  if (settings.views_mode)
    return std::make_unique<SessionFront>(ToSessionOptions(settings, identity), context);
  return std::make_unique<HookFront>(ToHookOptions(settings, identity), in_flight);
}

}  // namespace

Server::Server(const SemiPrimarySettings& settings, const Identity& identity, Housekeeper* housekeeper)
    : settings_(settings),
      housekeeper_(housekeeper),
      apply_events_(kMailboxItems),
      since_us_(MonotonicUs()),
      primary_(context_, SplitEndpoints(settings.primary), ToSocketOptions(settings)),
      core_(ToCoreOptions(settings, identity)),
      apply_({.conninfo = settings.database,
              .database = identity.database,
              .views_mode = settings.views_mode,
              .may_set_deadlock_timeout = identity.may_set_deadlock_timeout,
              .ack_interval_ms = settings.ack_interval_ms,
              .conflict_grace_ms = settings.conflict_grace_ms,
              .limits = ToInboxLimits(settings)},
             [this](ApplyEvent event) { apply_events_.Push(std::move(event)); }),
      blockers_({.conninfo = settings.database,
                 .database = identity.database,
                 .conflict_grace_ms = settings.conflict_grace_ms,
                 .commit_timeout_ms = settings.commit_timeout_ms,
                 .trigger_timeout_ms = settings.trigger_timeout_ms},
                apply_.activity(), in_flight_),
      holds_(settings.database, identity.database,
             [this](std::uint64_t transaction) { apply_events_.Push(HoldingTransactionEnded{transaction}); }),
      jobs_(settings.database, identity.database),
      mrv_reporter_(settings.database, identity.database),
      front_(MakeFront(settings, identity, &context_, &in_flight_)) {}

Result<Done, std::string> Server::Start() {
  auto started = front_->Start();
  if (!started) return started;
  apply_.Start();
  blockers_.Start();
  holds_.Start();
  if (!settings_.views_mode) jobs_.Start();
  mrv_reporter_.Start();
  housekeeper_->Start([this](const EpochStarts& epochs) { apply_events_.Push(EpochsSaved{epochs}); });
  return started;
}

int Server::Run(StopSignals& stop, std::function<void()> on_ready) {
  on_ready_ = std::move(on_ready);
  while (!stopping_ && !core_.fatal()) Step(kTickMs, &stop);
  ShutDown();
  return core_.exit_code();
}

void Server::Step(int timeout_ms, StopSignals* stop) {
  const std::array<int, 2> front = front_->fds();
  const std::array fds = {front[0], front[1], apply_events_.fd(), stop != nullptr ? stop->fd() : -1,
                          metrics_.fd()};
  const auto ready = primary_.Wait(fds, front_->HasInput() ? 0 : timeout_ms);
  if (ready[3] && stop->TakeSignal()) stopping_ = true;
  if (ready[2]) TakeApplyEvents();
  TakeMessages();
  front_->TakeInput(MonotonicUs());
  TakeApplyEvents();  // after the requests: what let them pass (ClaimApply) came after the ApplyStarted that they need
  PassRequests();
  CarryOutActions();
  const std::int64_t now_us = MonotonicUs();
  core_.OnTime(now_us);
  CarryOutActions();
  holds_.Watch(core_.holding_transaction());
  if (now_us - status_us_ >= kStatusEveryUs) PublishStatus(now_us);
  if (now_us - mrv_report_us_ >= kMrvReportEveryUs) ReportMrvs(now_us);
  metrics_.Serve(ready[4], now_us,
                 {.metrics = [&] { return Metrics(now_us); }, .health = [this] { return Illness(); }});
}

// No new commits. Commits under way get their decision if it comes soon. What is applied goes to the disk.
void Server::ShutDown() {
  spdlog::info("stopping: {} commits are under way", core_.waiting());
  front_->StopAccepting();
  core_.Stop();
  CarryOutActions();
  const std::int64_t until_us =
      MonotonicUs() + std::min<std::int64_t>(settings_.commit_timeout_ms, 3000) * 1000;
  while (core_.waiting() > 0 && MonotonicUs() < until_us) Step(kTickMs, nullptr);
  core_.GiveUp();
  CarryOutActions();
  front_->Stop();
  apply_.Stop();  // transactions that block it are still ended after conflict_grace_ms
  blockers_.Stop();
  holds_.Stop();
  jobs_.Stop();
  TakeApplyEvents();
  core_.SendGoodbye();
  CarryOutActions();
  primary_.LingerOnClose(kLingerMs);
  PublishStatus(MonotonicUs());
  mrv_reporter_.Stop();
  housekeeper_->Stop();
}

void Server::TakeApplyEvents() {
  for (const ApplyEvent& event : apply_events_.TakeAll()) {
    core_.OnApplyEvent(event, MonotonicUs());
    if (std::holds_alternative<ApplyCatalog>(event)) jobs_.WakeUp();  // after a schema change
    if (!std::holds_alternative<ApplyStarted>(event)) continue;
    front_->OnApplyStarted();
    PassRequests();
    if (on_ready_) std::exchange(on_ready_, nullptr)();
  }
  CarryOutActions();
}

void Server::TakeMessages() {
  proto::ToSemiPrimary message;
  std::size_t address = 0;
  while (!core_.fatal() && primary_.Receive(&message, &address)) {
    core_.OnMessage(message, MonotonicUs(), address);
    CarryOutActions();
  }
}

void Server::CarryOutActions() {
  bool again = true;
  while (again) {
    Core::Actions actions = core_.TakeActions();
    if (actions.reconnect) primary_.Reconnect();
    if (actions.go_to) primary_.Use(*actions.go_to);
    for (const proto::ToPrimary& look : actions.looks) primary_.SendToAll(look);
    for (const proto::ToPrimary& message : actions.messages) primary_.Send(message);
    for (CommitReply& reply : actions.replies) Answer(std::move(reply));
    if (actions.hurry) apply_.inbox().Hurry();
    for (ApplyStep& step : actions.steps) apply_.inbox().Push(std::move(step));
    if (actions.save_epochs) housekeeper_->SaveEpochs(*actions.save_epochs);
    if (actions.losses) housekeeper_->SetLosses({ToJson(*actions.losses), actions.losses_catalog});
    for (const Note& note : actions.notes) Log(note, &logged_);
    again = !actions.replies.empty();  // the front may have asked for more
    if (again) PassRequests();
  }
}

void Server::Answer(CommitReply reply) {
  const CommitEnd end(reply);
  front_->Answer(std::move(reply), MonotonicUs());
  if (end.timing.arrived_us != 0) core_.OnAnswered(end, MonotonicUs());
}

void Server::PassRequests() {
  const std::int64_t now_us = MonotonicUs();
  for (const FrontRequest& request : front_->TakeRequests()) core_.OnFrontRequest(request, now_us);
}

void Server::PublishStatus(std::int64_t now_us) {
  status_us_ = now_us;
  housekeeper_->SetStatus(core_.Status(now_us));
}

std::string Server::Metrics(std::int64_t now_us) {
  SemiPrimaryNumbers numbers;
  numbers.core = core_.Numbers(now_us);
  numbers.apply = apply_.numbers();
  numbers.blockers_ended = blockers_.ended();
  numbers.daemon = ReadDaemonNumbers(since_us_, now_us);
  numbers.daemon.epoch = numbers.core.status.epoch;
  numbers.daemon.closed_t = numbers.core.status.closed_t;
  numbers.daemon.malformed_messages = primary_.malformed_total();
  numbers.daemon.queue_bytes = {
      {"commits", static_cast<std::int64_t>(numbers.core.waiting_bytes), settings_.waiting_bytes_max},
      {"apply", static_cast<std::int64_t>(apply_.inbox().bytes()), 0}};
  numbers.daemon.queue_items = {{"apply_events", static_cast<std::int64_t>(apply_events_.size()),
                                 static_cast<std::int64_t>(kMailboxItems)}};
  return SemiPrimaryMetrics(numbers);
}

std::string Server::Illness() const {
  std::string why = core_.WhyNoCommit(MonotonicUs());
  if (why.empty() && !apply_.activity().has_session) why = "this semi-primary's PostgreSQL cannot be reached";
  return why;
}

void Server::ReportMrvs(std::int64_t now_us) {
  mrv_report_us_ = now_us;
  MrvReport report = core_.TakeMrvReport();
  if (!report.outcomes.empty()) mrv_reporter_.Add(std::move(report));
}

}  // namespace psp::sp
