#include "semi_primary/server.h"

#include <algorithm>
#include <array>
#include <random>
#include <utility>

#include "common/clock.h"
#include "common/log.h"

namespace psp {
namespace {

constexpr int kTickMs = 50;
constexpr std::int64_t kHelloEveryUs = 500'000;
constexpr std::int64_t kStatusEveryUs = 500'000;
constexpr std::size_t kMailboxItems = 1 << 16;

std::uint64_t DrawIncarnation() {
  std::random_device device;
  return (std::uint64_t{device()} << 32 | device()) | 1;
}

SocketOptions ToSocketOptions(const SemiPrimarySettings& settings) {
  SocketOptions options;
  options.heartbeat_timeout_ms = settings.heartbeat_timeout_ms;
  return options;
}

}  // namespace

Server::Server(const SemiPrimarySettings& settings, const ListenAddress& address, const Identity& identity,
               StatusWriter* status)
    : settings_(settings),
      identity_(identity),
      incarnation_(DrawIncarnation()),
      status_(status),
      hook_events_(kMailboxItems),
      apply_events_(kMailboxItems),
      primary_(context_, settings.primary, ToSocketOptions(settings)),
      submissions_({.commit_timeout_us = settings.commit_timeout_ms * 1000,
                    .disconnected_grace_us = settings.disconnected_grace_ms * 1000,
                    .waiting_bytes_max = static_cast<std::size_t>(settings.waiting_bytes_max),
                    .names = [this](std::uint32_t table_id) { return NamesOf(table_id); },
                    .sp_name =
                        [this](SpId sp_id) {
                          const auto name = sp_names_.find(sp_id);
                          return name == sp_names_.end() ? std::to_string(sp_id) : name->second;
                        }}),
      watermark_(identity.watermark),
      apply_({.conninfo = settings.database,
              .ack_interval_ms = settings.ack_interval_ms,
              .conflict_grace_ms = settings.conflict_grace_ms,
              .limits = {.transactions_max = static_cast<std::size_t>(settings.apply_batch_transactions_max),
                         .bytes_max = static_cast<std::size_t>(settings.apply_batch_bytes_max)}},
             [this](ApplyEvent event) { apply_events_.Push(std::move(event)); }),
      blockers_(settings.database, settings.conflict_grace_ms, apply_.activity()),
      hook_(
          {.address = address,
           .token = identity.token,
           .write_set_bytes_max = static_cast<std::size_t>(settings.write_set_bytes_max),
           .connections_max = static_cast<std::size_t>(settings.hook_connections_max)},
          {.on_request =
               [this](HookConnectionId connection, HookRequest request) {
                 hook_events_.Push(FromBackend{connection, std::move(request)});
               },
           .on_gone = [this](HookConnectionId connection) { hook_events_.Push(BackendGone{connection}); }}) {}

Result<Done, std::string> Server::Start() {
  auto started = hook_.Start();
  if (!started) return started;
  apply_.Start();
  blockers_.Start();
  status_->Start();
  return started;
}

int Server::Run(StopSignals& stop) {
  while (!stopping_ && !fatal_) Step(kTickMs, &stop);
  ShutDown();
  return fatal_ ? 1 : 0;
}

void Server::Step(int timeout_ms, StopSignals* stop) {
  const std::array fds = {hook_events_.fd(), apply_events_.fd(), stop != nullptr ? stop->fd() : -1};
  const auto [from_hook, from_apply, told_to_stop] = primary_.Wait(fds, timeout_ms);
  if (told_to_stop && stop->Take()) stopping_ = true;
  if (from_apply) TakeApplyEvents();
  TakeMessages();
  if (from_hook) TakeHookEvents();
  OnTime(MonotonicUs());
  Flush();
}

// No new commits; those under way get their decision if it comes soon; what is applied goes to the disk.
void Server::ShutDown() {
  spdlog::info("stopping: {} commits are under way", submissions_.waiting());
  hook_.StopAccepting();
  submissions_.Stop();
  Flush();
  const std::int64_t until_us =
      MonotonicUs() + std::min<std::int64_t>(settings_.commit_timeout_ms, 3000) * 1000;
  while (submissions_.waiting() > 0 && MonotonicUs() < until_us) Step(kTickMs, nullptr);
  submissions_.OnTime(INT64_MAX);  // those still without an answer: 08007
  Flush();
  hook_.Stop();
  apply_.Stop();  // who blocks it is still ended after conflict_grace_ms
  blockers_.Stop();
  TakeApplyEvents();
  Flush();
  proto::ToPrimary goodbye;
  goodbye.mutable_goodbye();
  Send(&goodbye);
  PublishStatus(MonotonicUs());
  status_->Stop();
}

void Server::TakeHookEvents() {
  for (HookEvent& event : hook_events_.TakeAll()) {
    if (auto* request = std::get_if<FromBackend>(&event)) {
      OnBackend(std::move(*request));
    } else {
      submissions_.BackendGone(std::get<BackendGone>(event).connection);
    }
  }
}

void Server::OnBackend(FromBackend event) {
  const std::int64_t now_us = MonotonicUs();
  if (const auto* outcome = std::get_if<OutcomeRequest>(&event.request)) {
    return submissions_.AskOutcome(event.connection, outcome->tx_id, now_us);
  }
  auto& commit = std::get<CommitRequest>(event.request);
  if (joining_ || !failure_.empty() || generation_ == 0) {
    const std::string why = joining_           ? "this semi-primary is joining: its copy is not complete yet"
                            : failure_.empty() ? "psp: this semi-primary is starting"
                                               : "psp: this semi-primary has stopped applying: " + failure_;
    return hook_.Reply(event.connection, UserError{"08006", why, "", "Nothing was sent."});
  }
  submissions_.Submit({event.connection,
                       commit.tx_id,
                       {commit.watermark, std::move(commit.seen)},
                       std::move(commit.write_set),
                       commit.write_set_bytes},
                      now_us);
}

void Server::TakeApplyEvents() {
  for (const ApplyEvent& event : apply_events_.TakeAll()) {
    if (const auto* started = std::get_if<ApplyStarted>(&event)) {
      OnApplyStarted(*started);
    } else if (const auto* progress = std::get_if<ApplyProgress>(&event)) {
      OnApplyProgress(*progress);
    } else if (const auto* catalog = std::get_if<ApplyCatalog>(&event)) {
      catalog_ = catalog->catalog;
    } else {
      failure_ = std::get<ApplyFailed>(event).message;
      last_error_ = failure_;
    }
  }
}

void Server::OnApplyStarted(const ApplyStarted& started) {
  generation_ = started.generation;
  watermark_ = started.watermark;
  joining_ = started.joining;
  catch_up_t_ = std::max(catch_up_t_, closed_t_);
  copy_received_ = false;
  catalog_ = started.catalog;
  position_.Reset(started.watermark);
  submissions_.OnStreamReset();
  if (epoch_ != 0) Recover();
}

void Server::OnApplyProgress(const ApplyProgress& progress) {
  if (progress.generation != generation_) return;
  watermark_ = progress.watermark;
  durable_ = progress.durable;
  joining_ = progress.joining;
  copied_rows_ = progress.copied_rows;
  submissions_.OnApplied(watermark_);
  if (joining_) SendHeartbeat(MonotonicUs());  // the primary sends more of the table
  if (epoch_ != 0 && durable_ > acked_) {
    proto::ToPrimary ack;
    ack.mutable_ack()->set_watermark(durable_);
    if (Send(&ack)) acked_ = durable_;
  }
}

void Server::OnTime(std::int64_t now_us) {
  submissions_.OnTime(now_us);
  if (epoch_ != 0 && now_us - heard_us_ > settings_.heartbeat_timeout_ms * 1000) Disconnect("it is silent");
  if ((epoch_ == 0 || asking_name_) && now_us - hello_us_ >= kHelloEveryUs) SayHello();
  if (epoch_ != 0 && now_us - heartbeat_us_ >= heartbeat_interval_us_) SendHeartbeat(now_us);
  if (watermark_ >= closed_t_) behind_since_us_ = 0;
  if (now_us - status_us_ >= kStatusEveryUs) PublishStatus(now_us);
}

void Server::Flush() {
  for (auto& reply : submissions_.TakeReplies()) {
    if (const auto* committed = std::get_if<Submissions::Committed>(&reply.answer)) {
      hook_.Reply(reply.ticket, CommittedReply{committed->global_t});
    } else if (const auto* outcome = std::get_if<Submissions::Outcome>(&reply.answer)) {
      hook_.Reply(reply.ticket, OutcomeReply{outcome->committed});
    } else {
      hook_.Reply(reply.ticket, std::get<UserError>(std::move(reply.answer)));
    }
  }
  for (proto::ToPrimary& message : submissions_.TakeMessages()) Send(&message);
}

KeyNames Server::NamesOf(std::uint32_t table_id) const {
  KeyNames names;
  if (!catalog_) return names;
  const auto guard = catalog_->guards.find(table_id);
  if (guard != catalog_->guards.end()) names.index_name = guard->second.index_name;
  const auto table =
      catalog_->tables.find(guard == catalog_->guards.end() ? table_id : guard->second.table_id);
  if (table == catalog_->tables.end()) return names;
  names.schema_name = table->second.schema_name;
  names.table_name = table->second.table_name;
  names.key_columns = table->second.key_names;
  return names;
}

std::string Server::StateName() const {
  if (!failure_.empty()) return "failed";
  if (stopping_) return "stopped";
  if (epoch_ == 0) return "disconnected";
  if (joining_) return "joining";
  return recovering_ || watermark_ < catch_up_t_ ? "recovering" : "streaming";
}

void Server::PublishStatus(std::int64_t now_us) {
  status_us_ = now_us;
  DaemonStatus status;
  status.state = StateName();
  status.watermark = watermark_;
  status.closed_t = closed_t_;
  status.lag_ms = behind_since_us_ == 0 ? 0 : (now_us - behind_since_us_) / 1000;
  status.commits_total = submissions_.counters().commits_total;
  status.aborts_total = submissions_.counters().aborts_total;
  status.rtt_ms = rtt_ms_;
  status.epoch = epoch_;
  status.waiting = submissions_.waiting();
  status.join_rows_done = copied_rows_;
  status.join_rows_total = copy_rows_total_;
  status.last_error = last_error_;
  status_->Set(status);
}

}  // namespace psp
