#include "tests/simulation/primary_daemon.h"

#include <algorithm>
#include <limits>

#include "tests/simulation/bad_input.h"

namespace psp::simulation {
namespace {

constexpr std::int64_t kTickUs = 50'000;
constexpr std::int64_t kToldAfterUs = 100'000;
constexpr std::int64_t kMustBeToldUs = 400'000;
constexpr std::int64_t kHearUs = 1'000'000;

primary::Core::Options CoreOptions(const Scenario& scenario) {
  primary::Core::Options options;
  options.heartbeat_interval_ms = 150;
  options.heartbeat_timeout_us = kHeartbeatTimeoutUs;
  options.housekeeping_interval_us = scenario.housekeeping_interval_us;
  options.log_truncation_interval_us = 2 * scenario.housekeeping_interval_us;
  options.sweep_interval_us = 3 * scenario.housekeeping_interval_us;
  options.scheduler = {scenario.batch_transactions_max, 1 << 20};
  options.batch_wait_max_us = 5'000;
  options.standstill.told_after_us = kToldAfterUs;
  if (scenario.mutation != Mutation::kLeaderHearsNobody) options.hearing.hear_us = kHearUs;
  if (scenario.mutation == Mutation::kReservationsNeverEnd) {
    options.reservations.reservation_max_us = std::numeric_limits<std::int64_t>::max() / 2;
  }
  options.streams = {scenario.message_bytes_max, scenario.outstanding_bytes_max, scenario.recent_bytes_max};
  return options;
}

}  // namespace

PrimaryDaemon::PrimaryDaemon(Simulator* sim, const Scenario& scenario, PrimaryDatabase* database,
                             const Standby* standby, Epoch epoch, Network* network, std::size_t address,
                             OnReady on_ready)
    : sim_(*sim),
      scenario_(scenario),
      database_(*database),
      standby_(standby),
      network_(*network),
      address_(address),
      on_ready_(std::move(on_ready)),
      epoch_(epoch),
      core_(CoreOptions(scenario),
            {kClusterId, epoch_, database->closed_t(), database->truncated_t(), database->Registry(),
             database->Tables(), database->epochs(), database->kept(), database->newest_ts()}),
      stands_since_us_(sim->now_us()) {
  network_.to_primary.at(address_) = [this](const std::string& route, const std::string& bytes) {
    OnMessage(route, bytes);
  };
  sim_.Trace("primary: epoch ", epoch_, " begins at ", closed_t());
  Tick();
}

PrimaryDaemon::~PrimaryDaemon() {
  network_.to_primary.at(address_) = nullptr;
  if (scenario_.mutation == Mutation::kDecisionBeforeDurable) return;
  for (const auto& [batch_id, batch] : running_) {
    if (sim_.Chance(50)) database_.Decide(batch);
  }
}

void PrimaryDaemon::SayAway() {
  is_away_ = true;
  core_.SayAway(static_cast<std::uint32_t>(kAwayUs / 1000));
  for (std::string& name : core_.unaware()) there_at_the_end_.insert(std::move(name));
  CarryOutActions();
}

void PrimaryDaemon::OnMessage(const std::string& route, const std::string& bytes) {
  proto::ToPrimary message;
  if (!message.ParseFromString(bytes)) return sim_.Violation("a malformed message arrived at the primary");
  NoteMessage(route, message);
  if (message.has_certify()) MakeMistakes(message.mutable_certify());
  if (scenario_.mutation == Mutation::kNobodyIsHeld && message.has_hold()) {
    message.mutable_hold()->clear_table_ids();
  }
  if (scenario_.mutation == Mutation::kReservationsNeverEnd && message.has_heartbeat()) {
    message.mutable_heartbeat()->clear_rtt_us();
  }
  core_.OnMessage(route, &message, sim_.now_us());
  CarryOutActions();
  Dispatch();
}

void PrimaryDaemon::MakeMistakes(proto::Certify* certify) {
  proto::WriteSet write_set;
  write_set.ParseFromString(certify->write_set());
  const bool is_schema_change = write_set.kind() == proto::ENTRY_SCHEMA_CHANGE;
  const std::uint32_t newest = database_.Tables().version;
  const bool is_older =
      !is_schema_change && write_set.catalog_version() > 0 && write_set.catalog_version() <= newest;
  if (scenario_.mutation == Mutation::kUnknownIsTakenForKnown) {
    TakeForKnown(newest, &write_set);
  } else if (scenario_.mutation == Mutation::kOlderDefinitionsAreTaken && is_older) {
    write_set.set_catalog_version(newest);
  } else if (scenario_.mutation == Mutation::kWaitingAreNotCheckedAgain && is_older) {
    for (const auto& [tx_id, version] : changes_under_way_) {
      if (version == newest + 1) write_set.set_catalog_version(version);
    }
  } else if (scenario_.mutation == Mutation::kMissingRowsAreOverlooked && is_schema_change) {
    certify->mutable_snapshot()->set_watermark(std::numeric_limits<GlobalT>::max());
  }
  if (is_schema_change) changes_under_way_[*TxId::FromBytes(certify->tx_id())] = write_set.catalog_version();
  certify->set_write_set(write_set.SerializeAsString());
}

void PrimaryDaemon::NoteMessage(const std::string& route, const proto::ToPrimary& message) {
  const SpId sp_id = network_.SpOf(route);
  Stream& stream = streams_[sp_id];
  if (route != stream.route || message.epoch() != epoch_) return;  // it changes nothing
  if (message.has_ack()) stream.applied_t = std::max(stream.applied_t, message.ack().watermark());
  if (message.has_heartbeat()) stream.applied_t = std::max(stream.applied_t, message.heartbeat().applied());
  if (!message.has_stream_request()) return;
  const proto::StreamRequest& request = message.stream_request();
  sim_.Trace("primary: SP ", sp_id, " streams from ", request.from(),
             request.with_copy() ? " with a copy" : "");
  stream = {route, request.with_copy() ? Stream::Phase::kCopy : Stream::Phase::kLog, request.from(), 0, 0, 0};
}

void PrimaryDaemon::Dispatch() {
  if (is_away_) return;
  while (busy_executors_ < scenario_.executors) {
    const auto batch = core_.NextBatch(sim_.now_us());
    if (!batch) break;
    RunBatch(*batch);
  }
  if (const auto until_us = core_.WaitUntilUs(sim_.now_us())) {
    sim_.At(*until_us, alive_, [this] { Dispatch(); });
  }
}

void PrimaryDaemon::RunBatch(const primary::Batch& batch) {
  if (!core_.hearing().is_over()) sim_.Violation("the primary decides before it has heard the SPs");
  running_[batch.batch_id] = batch;
  ++busy_executors_;
  for (const primary::BatchItem& item : batch.items) {
    if (item.global_t == 0) continue;
    for (const proto::Row& row : item.request->rows.rows()) {
      if (!running_keys_.insert({row.table_id(), row.key()}).second) {
        sim_.Violation("two transactions under way hold the same key");
      }
    }
  }
  if (scenario_.mutation == Mutation::kDecisionBeforeDurable) {
    std::vector<primary::Verdict> promised;
    for (const primary::BatchItem& item : batch.items)
      promised.push_back({item.global_t, std::nullopt, item.abort_reason});
    const std::int64_t delay_us = sim_.Between(100, 1'000);
    sim_.After(delay_us, alive_, [this, promised, id = batch.batch_id] { EndCommit({id, promised}, true); });
    sim_.After(delay_us + 5'000, alive_, [this, batch] { database_.Decide(batch); });
    return;
  }
  sim_.After(sim_.Between(100, 8'000), alive_, [this, id = batch.batch_id] { CommitBatch(id, false); });
}

void PrimaryDaemon::CommitBatch(std::uint64_t batch_id, bool is_repeated) {
  const primary::Batch batch = running_.at(batch_id);
  const bool connection_lost = sim_.Chance(5);
  const auto again = [this, batch_id] { CommitBatch(batch_id, true); };
  if (connection_lost && sim_.Chance(50)) {  // before the commit
    return sim_.After(sim_.Between(1'000, 50'000), alive_, again);
  }
  const std::uint64_t before = database_.written();
  primary::BatchResult result{batch_id, database_.Decide(batch)};
  const bool has_written = database_.written() > before;
  if (connection_lost) {  // in doubt: asked again, and psp.tx_log knows
    return sim_.After(sim_.Between(1'000, 50'000), alive_, again);
  }
  AwaitStandby(result, has_written ? database_.written() : 0, is_repeated);
}

// As PostgreSQL does at COMMIT, if the transaction has written something: the wait may be cancelled, or the session be lost meanwhile.
void PrimaryDaemon::AwaitStandby(const primary::BatchResult& result, std::uint64_t position,
                                 bool is_repeated) {
  const bool is_there = standby_ == nullptr || standby_->Has(position);
  if (!is_there && standby_->is_cut() && sim_.Chance(2)) {
    return sim_.After(sim_.Between(100, 50'000), alive_,
                      [this, id = result.batch_id] { CommitBatch(id, true); });
  }
  const bool is_cancelled = !is_there && standby_->is_cut() && sim_.Chance(3);
  if (!is_there && !is_cancelled) {
    return sim_.After(500, alive_,
                      [this, result, position, is_repeated] { AwaitStandby(result, position, is_repeated); });
  }
  const bool is_trusted = (is_cancelled && scenario_.mutation == Mutation::kCancelledWaitIsProof) ||
                          (is_repeated && scenario_.mutation == Mutation::kRepeatedBatchIsProven);
  sim_.After(sim_.Between(10, 200), alive_, [this, result, is_trusted] { EndCommit(result, is_trusted); });
}

primary::Look PrimaryDaemon::LookAtStandby() const {
  return standby_ == nullptr ? primary::kNoCopies
                             : primary::Look{.written = database_.written(), .copied = standby_->flushed()};
}

void PrimaryDaemon::EndCommit(const primary::BatchResult& result, bool is_trusted) {
  --busy_executors_;
  if (is_trusted) return OnBatchResult(result);
  gate_.Add(result, LookAtStandby());
  TakeProven();
  Dispatch();
}

void PrimaryDaemon::TakeProven() {
  for (const primary::BatchResult& result : gate_.TakeProven()) OnBatchResult(result);
  if (gate_.waits_for() && !looks_again_) LookAgain();
}

void PrimaryDaemon::LookAgain() {
  looks_again_ = true;
  sim_.After(sim_.Between(500, 5'000), alive_, [this] {
    looks_again_ = false;
    gate_.OnLook(LookAtStandby());
    TakeProven();
  });
}

// In the order in which they were read.
void PrimaryDaemon::WhenProven(std::function<void()> action) {
  if (standby_ == nullptr) return action();
  const bool was_empty = unproven_.empty();
  unproven_.emplace_back(database_.written(), std::move(action));
  if (was_empty) TellProven();
}

void PrimaryDaemon::TellProven() {
  while (!unproven_.empty() && standby_->Has(unproven_.front().first)) {
    unproven_.front().second();
    unproven_.pop_front();
  }
  if (!unproven_.empty()) sim_.After(1'000, alive_, [this] { TellProven(); });
}

void PrimaryDaemon::OnBatchResult(const primary::BatchResult& result) {
  for (const primary::BatchItem& item : running_.at(result.batch_id).items) {
    if (item.global_t == 0) continue;
    for (const proto::Row& row : item.request->rows.rows()) running_keys_.erase({row.table_id(), row.key()});
  }
  running_.erase(result.batch_id);
  const primary::Scheduler::Finished finished = core_.Finish(result, sim_.now_us());
  for (const primary::Scheduler::Decided& one : finished.decided) {
    sim_.Trace("primary: ", one.request->tx_id.ToText(), " of SP ", one.request->sp_id, " gets ",
               one.verdict.global_t);
    told_.insert(one.request->tx_id);
    changes_under_way_.erase(one.request->tx_id);
  }
  Dispatch();
  core_.AnnounceDecisions(finished, sim_.now_us());
  decided_us_ = stands_since_us_ = sim_.now_us();
  CarryOutActions();
}

void PrimaryDaemon::CarryOutActions() {
  const primary::Core::Actions actions = core_.TakeActions();
  if (core_.hearing().is_over() && on_ready_) std::exchange(on_ready_, nullptr)(core_.hearing().unheard());
  for (const primary::Core::Send& send : actions.sends) {
    CheckSend(send);
    if (network_.SendToSp(send.route, send.bytes)) continue;
    core_.OnUnreachable(send);
    there_at_the_end_.erase("sp" + std::to_string(send.sp_id));
  }
  for (const primary::ReadLog& work : actions.log_reads) Read(work);
  for (const primary::ReadCopy& work : actions.copy_reads) Read(work);
  for (const primary::HouseWork& work : actions.house_works) {
    if (sim_.Chance(5)) {
      core_.OnHouseWorkRefused(work);
    } else {
      KeepHouse(work);
    }
  }
  for (const Note& note : actions.notes) {
    sim_.Trace("primary: ", note.text);
    if (note.event == "sp_silent") there_at_the_end_.erase(note.fields.at(0).value);
  }
}

// What a statement reads, and when its result comes, are two moments.
void PrimaryDaemon::Read(const primary::ReadLog& work) {
  sim_.After(sim_.Between(50, 3'000), alive_, [this, work] {
    WhenProven([this, chunk = database_.Read(work)] {
      sim_.After(sim_.Between(50, 3'000), alive_, [this, chunk] {
        core_.OnLogChunk(chunk);
        CarryOutActions();
      });
    });
  });
}

void PrimaryDaemon::Read(const primary::ReadCopy& work) {
  sim_.After(sim_.Between(50, 3'000), alive_, [this, work] {
    const auto tell = [this, chunk = database_.Read(epoch_, work)] {
      sim_.After(sim_.Between(50, 3'000), alive_, [this, chunk] {
        core_.OnCopyChunk(chunk);
        CarryOutActions();
      });
    };
    WhenProven(tell);
  });
}

void PrimaryDaemon::KeepHouse(const primary::HouseWork& work) {
  const std::int64_t done_us = std::max(house_free_us_, sim_.now_us()) + sim_.Between(200, 5'000);
  house_free_us_ = done_us + sim_.Between(50, 3'000);
  sim_.At(done_us, alive_, [this, work, told_us = house_free_us_] {
    WhenProven([this, told_us, report = database_.Keep(work)] {
      sim_.At(std::max(told_us, sim_.now_us()), alive_, [this, report] {
        core_.OnHouseReport(report, sim_.now_us());
        CarryOutActions();
      });
    });
  });
}

// As primary/server_watch.cc does.
void PrimaryDaemon::Watch() {
  const bool is_copied = standby_ == nullptr || standby_->Has(watched_position_) ||
                         scenario_.mutation == Mutation::kStandbyIsNotWatched;
  if (is_copied) watched_position_ = database_.written();
  if (!is_copied || scenario_.mutation != Mutation::kStandstillNeverEnds) {
    sight_.copies = standby_ == nullptr ? 0 : 1;
    sight_.copied = is_copied ? sight_.copies : 0;
  }
  sight_.looked_us = sim_.now_us();
  core_.OnSight(sight_, sim_.now_us());
}

void PrimaryDaemon::CheckStandstill() {
  if (core_.standstill() && core_.hearing().is_over() && sim_.now_us() - decided_us_ < kToldAfterUs) {
    sim_.Violation("the primary says that it can decide nothing, and does");
  }
  const bool may_stand = standby_ != nullptr && standby_->is_cut() && !running_.empty();
  if (!may_stand) stands_since_us_ = sim_.now_us();
}

void PrimaryDaemon::CheckSend(const primary::Core::Send& send) {
  proto::ToSemiPrimary message;
  if (!message.ParseFromString(send.bytes) || message.epoch() != epoch_) {
    return sim_.Violation("SP ", send.sp_id, " is sent something malformed or of another epoch");
  }
  if (message.has_welcome() && !message.welcome().say_hello()) streams_[send.sp_id] = {.route = send.route};
  if (message.has_heartbeat_reply() && !message.heartbeat_reply().has_standstill() &&
      sim_.now_us() - stands_since_us_ > kMustBeToldUs) {
    sim_.Violation("SP ", send.sp_id, " is not told that nothing is decided");
  }
  if (message.has_replicate()) CheckReplicate(send.sp_id, message.replicate());
  if (message.has_copy_chunk()) CheckCopy(send.sp_id, message.copy_chunk());
}

// The stream's chain, and each decision before the marker of its transaction.
void PrimaryDaemon::CheckReplicate(SpId sp_id, const proto::Replicate& replicate) {
  Stream& stream = streams_[sp_id];
  // A stream that begins below what the SP has told to have may skip that.
  const bool skips = replicate.from_t() > stream.closed_t && replicate.from_t() <= stream.applied_t;
  if (stream.phase != Stream::Phase::kLog || (replicate.from_t() != stream.closed_t && !skips)) {
    sim_.Violation("SP ", sp_id, ": stream goes on at ", replicate.from_t(), " after ", stream.closed_t);
  }
  GlobalT last_t = replicate.from_t();
  for (const proto::Transaction& transaction : replicate.transactions()) {
    if (transaction.global_t() <= last_t || transaction.global_t() > replicate.closed_t()) {
      sim_.Violation("SP ", sp_id, ": ", transaction.global_t(), " is out of order");
    }
    last_t = transaction.global_t();
    if (transaction.has_write_set()) continue;
    if (transaction.sp_id() != sp_id || !told_.contains(*TxId::FromBytes(transaction.tx_id()))) {
      sim_.Violation("SP ", sp_id, ": the marker of ", last_t, " comes before its decision");
    }
  }
  stream.closed_t = replicate.closed_t();
}

// The copy's parts follow one another, all as of one moment, and then comes the log from there.
void PrimaryDaemon::CheckCopy(SpId sp_id, const proto::CopyChunk& chunk) {
  Stream& stream = streams_[sp_id];
  if (stream.rows_done == 0) stream.snapshot_t = chunk.snapshot_t();
  if (stream.phase != Stream::Phase::kCopy || chunk.snapshot_t() != stream.snapshot_t ||
      chunk.rows_done() != stream.rows_done + chunk.rows_size()) {
    sim_.Violation("SP ", sp_id, ": copy goes on at ", chunk.rows_done(), " after ", stream.rows_done);
  }
  stream.rows_done = chunk.rows_done();
  if (!chunk.last()) return;
  stream.phase = Stream::Phase::kLog;
  stream.closed_t = chunk.snapshot_t();
}

void PrimaryDaemon::Tick() {
  Watch();
  core_.OnTime(sim_.now_us());
  core_.OnAllRead(sim_.now_us());
  CheckStandstill();
  CarryOutActions();
  Dispatch();
  sim_.After(std::min(kTickUs, scenario_.housekeeping_interval_us), alive_, [this] { Tick(); });
}

}  // namespace psp::simulation
