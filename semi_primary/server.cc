#include "semi_primary/server.h"

#include <algorithm>
#include <random>
#include <utility>

#include "common/clock.h"
#include "common/log.h"

namespace psp {
namespace {

constexpr int kTickMs = 50;
constexpr std::int64_t kHelloEveryUs = 500'000;
constexpr std::int64_t kRecoverAgainUs = 5'000'000;
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

WriteSetPtr ParseWriteSet(const std::string& bytes) {
  auto write_set = std::make_shared<proto::WriteSet>();
  return write_set->ParseFromString(bytes) ? write_set : nullptr;
}

}  // namespace

void WaitingBackends::Add(HookConnectionId connection, int pid) {
  const std::lock_guard lock(mutex_);
  pids_[connection] = pid;
}

void WaitingBackends::Remove(HookConnectionId connection) {
  const std::lock_guard lock(mutex_);
  pids_.erase(connection);
}

bool WaitingBackends::Contains(int pid) const {
  const std::lock_guard lock(mutex_);
  return std::any_of(pids_.begin(), pids_.end(), [pid](const auto& entry) { return entry.second == pid; });
}

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
              .limits = {.transactions_max = static_cast<std::size_t>(settings.apply_batch_transactions_max),
                         .bytes_max = static_cast<std::size_t>(settings.apply_batch_bytes_max)}},
             [this](ApplyEvent event) { apply_events_.Push(std::move(event)); }),
      blockers_(settings.database, settings.conflict_grace_ms, apply_.activity(),
                [this](int pid) { return waiting_backends_.Contains(pid); }),
      hook_(
          {.address = address,
           .token = identity.token,
           .write_set_bytes_max = static_cast<std::size_t>(settings.write_set_bytes_max),
           .connections_max = static_cast<std::size_t>(settings.hook_connections_max)},
          {.on_request =
               [this](HookConnectionId connection, HookRequest request) {
                 if (const auto* commit = std::get_if<CommitRequest>(&request)) {
                   waiting_backends_.Add(connection, commit->backend_pid);
                 }
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
  std::vector<zmq::pollitem_t> items = {primary_.poll_item(),
                                        {nullptr, hook_events_.fd(), ZMQ_POLLIN, 0},
                                        {nullptr, apply_events_.fd(), ZMQ_POLLIN, 0}};
  if (stop != nullptr) items.push_back({nullptr, stop->fd(), ZMQ_POLLIN, 0});
  zmq::poll(items, std::chrono::milliseconds(timeout_ms));
  if (stop != nullptr && stop->Take()) stopping_ = true;
  TakeApplyEvents();
  TakeMessages();
  TakeHookEvents();
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
  blockers_.Stop();
  apply_.Stop();
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
      const HookConnectionId connection = std::get<BackendGone>(event).connection;
      waiting_backends_.Remove(connection);
      submissions_.BackendGone(connection);
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
    waiting_backends_.Remove(event.connection);
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

void Server::TakeMessages() {
  proto::ToSemiPrimary message;
  while (!fatal_ && primary_.Receive(&message)) {
    heard_us_ = MonotonicUs();
    OnMessage(message);
  }
}

void Server::OnMessage(const proto::ToSemiPrimary& message) {
  if (message.has_welcome()) return OnWelcome(message.epoch(), message.welcome());
  if (message.has_refused()) return OnRefused(message.refused());
  if (epoch_ == 0 || message.epoch() != epoch_) return;
  if (asking_name_ && !message.has_heartbeat_reply()) return;  // it comes again after Welcome
  if (message.has_decision()) {
    const proto::Decision& decision = message.decision();
    if (decision.has_conflict() && AskName(decision.conflict().winner_sp_id())) return;
    return submissions_.OnDecision(decision);
  }
  if (message.has_replicate()) return OnReplicate(message.replicate());
  if (message.has_snapshot_chunk()) return OnSnapshotChunk(message.snapshot_chunk());
  if (message.has_outcome_reply()) {
    const auto tx_id = TxId::FromBytes(message.outcome_reply().tx_id());
    if (tx_id) submissions_.OnOutcomeReply(*tx_id, message.outcome_reply().global_t());
  } else if (message.has_heartbeat_reply()) {
    rtt_ms_ = static_cast<double>(MonotonicUs() - message.heartbeat_reply().sent_us()) / 1000.0;
    closed_t_ = std::max(closed_t_, message.heartbeat_reply().closed_t());
  }
}

void Server::OnWelcome(Epoch epoch, const proto::Welcome& welcome) {
  if (welcome.say_hello()) {
    if (epoch_ != 0) Disconnect("it does not know this semi-primary any more");
    return;
  }
  for (const auto& sp : welcome.semi_primaries()) sp_names_[sp.sp_id()] = sp.name();
  asking_name_ = false;
  if (epoch != epoch_) spdlog::info("connected to the primary, epoch {}", epoch);
  epoch_ = epoch;
  acked_ = -1;
  closed_t_ = welcome.closed_t();
  catch_up_t_ = welcome.closed_t();
  if (welcome.heartbeat_interval_ms() > 0)
    heartbeat_interval_us_ = welcome.heartbeat_interval_ms() * std::int64_t{1000};
  last_error_ = failure_;
  if (generation_ != 0) Recover();
  submissions_.OnConnected();
}

void Server::OnRefused(const proto::Refused& refused) {
  if (last_error_ != refused.message())
    spdlog::error("the primary refuses this semi-primary: {}", refused.message());
  last_error_ = refused.message();
  switch (refused.reason()) {
    case proto::Refused::DUPLICATE_SP:
    case proto::Refused::UNSPECIFIED:
      return;  // Hello is said again
    default:
      fatal_ = true;
  }
}

void Server::OnReplicate(const proto::Replicate& replicate) {
  closed_t_ = std::max(closed_t_, replicate.closed_t());
  if (generation_ == 0 || (joining_ && !copy_received_)) return;
  for (const proto::Transaction& transaction : replicate.transactions()) {
    if (AskName(transaction.sp_id())) return;
  }
  switch (position_.Offer(replicate.from_t(), replicate.closed_t())) {
    case StreamPosition::Verdict::kOld:
      return;
    case StreamPosition::Verdict::kGap:
      if (!recovering_ || MonotonicUs() - recover_us_ > kRecoverAgainUs) Recover();
      return;
    case StreamPosition::Verdict::kTake:
      break;
  }
  recovering_ = false;
  ApplyStep step;
  step.generation = generation_;
  step.closed_t = replicate.closed_t();
  for (const proto::Transaction& transaction : replicate.transactions()) {
    const auto tx_id = TxId::FromBytes(transaction.tx_id());
    WriteSetPtr write_set = transaction.has_write_set() ? ParseWriteSet(transaction.write_set()) : nullptr;
    const bool own = transaction.sp_id() == identity_.sp_id;
    if (!tx_id || (transaction.has_write_set() && !write_set) || (!own && !write_set)) {
      failure_ = last_error_ =
          "the stream has a malformed transaction, global_t " + std::to_string(transaction.global_t());
      spdlog::critical("{}", failure_);
      return;
    }
    step.bytes += transaction.write_set().size();
    if (own) {
      if (!write_set) write_set = submissions_.WriteSetOf(*tx_id);
      submissions_.OnOwnTransaction(*tx_id, transaction.global_t());
    } else {
      submissions_.OnRemoteTransaction(transaction.global_t(), transaction.sp_id(), write_set);
    }
    step.transactions.push_back({transaction.global_t(), *tx_id, own, std::move(write_set)});
  }
  if (behind_since_us_ == 0) behind_since_us_ = MonotonicUs();
  apply_.inbox().Push(std::move(step));
}

void Server::OnSnapshotChunk(const proto::SnapshotChunk& chunk) {
  if (generation_ == 0 || !joining_ || copy_received_) return;
  auto rows = std::make_shared<proto::WriteSet>();
  *rows->mutable_rows() = chunk.rows();
  ApplyStep step;
  step.generation = generation_;
  step.closed_t = chunk.snapshot_t();
  step.copied_rows = std::move(rows);
  step.copy_is_complete = chunk.last();
  step.rows_done = chunk.rows_done();
  step.bytes = chunk.ByteSizeLong();
  apply_.inbox().Push(std::move(step));
  copy_rows_total_ = std::max(chunk.rows_total(), chunk.rows_done());
  recovering_ = false;
  if (!chunk.last()) return;
  copy_received_ = true;
  position_.Reset(chunk.snapshot_t());
}

void Server::OnTime(std::int64_t now_us) {
  submissions_.OnTime(now_us);
  if (epoch_ != 0 && now_us - heard_us_ > settings_.heartbeat_timeout_ms * 1000) Disconnect("it is silent");
  if ((epoch_ == 0 || asking_name_) && now_us - hello_us_ >= kHelloEveryUs) SayHello();
  if (epoch_ != 0 && now_us - heartbeat_us_ >= heartbeat_interval_us_) SendHeartbeat(now_us);
  if (watermark_ >= closed_t_) behind_since_us_ = 0;
  if (now_us - status_us_ >= kStatusEveryUs) PublishStatus(now_us);
}

// True when the name of this semi-primary, which joined after the last Welcome, is being asked for: drop the
// message. Hello makes the primary begin anew, so the message comes again after Welcome. Asked once for each
// number.
bool Server::AskName(SpId sp_id) {
  if (sp_id == 0 || sp_names_.contains(sp_id)) return false;
  sp_names_.emplace(sp_id, std::to_string(sp_id));
  asking_name_ = true;
  SayHello();
  return true;
}

void Server::SayHello() {
  hello_us_ = MonotonicUs();
  proto::ToPrimary message;
  proto::Hello* hello = message.mutable_hello();
  hello->set_cluster_id(identity_.cluster_id);
  hello->set_sp_id(identity_.sp_id);
  hello->set_name(settings_.name);
  hello->set_incarnation(incarnation_);
  hello->set_watermark(watermark_);
  hello->set_protocol_version(kProtocolVersion);
  primary_.Send(message);  // unreachable: it is said again
}

void Server::Disconnect(const char* why) {
  spdlog::warn("lost the primary: {}", why);
  last_error_ = std::string("lost the primary: ") + why;
  epoch_ = 0;
  asking_name_ = false;
  hello_us_ = 0;
  primary_.Reconnect();
  submissions_.OnDisconnected();
}

void Server::Recover() {
  if (!failure_.empty()) return;
  recovering_ = true;
  recover_us_ = MonotonicUs();
  proto::ToPrimary message;
  message.mutable_recover()->set_from(position_.position());
  message.mutable_recover()->set_whole_table(joining_ && !copy_received_);
  Send(&message);
}

void Server::SendHeartbeat(std::int64_t now_us) {
  heartbeat_us_ = now_us;
  proto::ToPrimary message;
  proto::Heartbeat* heartbeat = message.mutable_heartbeat();
  heartbeat->set_sent_us(now_us);
  heartbeat->set_applied(watermark_);
  if (joining_) heartbeat->set_snapshot_rows_stored(copied_rows_);
  Send(&message);
}

void Server::Flush() {
  for (auto& reply : submissions_.TakeReplies()) {
    waiting_backends_.Remove(reply.ticket);
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

// False when there is no connection: everything open is sent again after the next Welcome.
bool Server::Send(proto::ToPrimary* message) {
  if (epoch_ == 0) return false;
  message->set_epoch(epoch_);
  return primary_.Send(*message) == SendOutcome::kSent;
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
