#include "tests/simulation/sp_daemon.h"

#include <algorithm>
#include <utility>

#include "semi_primary/submit/error_text.h"
#include "tests/simulation/primary_daemon.h"

namespace psp::simulation {
namespace {

constexpr std::int64_t kTickUs = 50'000;

std::size_t AddressesOf(const Scenario& scenario) { return scenario.has_standby ? 2 : 1; }

sp::Core::Options CoreOptions(const Scenario& scenario, SpId sp_id, std::uint64_t incarnation,
                              const SpDatabase& database) {
  const SpState& state = *database.state();
  sp::Core::Options options;
  options.cluster_id = kClusterId;
  options.sp_id = sp_id;
  options.name = "sp" + std::to_string(sp_id);
  options.incarnation = incarnation;
  options.watermark = state.watermark;
  options.joining = state.joining;
  options.may_lack_own = database.MayLackOwn();
  options.epochs = state.epochs;
  options.follows_any = state.follows_any || scenario.mutation == Mutation::kOlderPrimaryIsFollowed;
  options.addresses = AddressesOf(scenario);
  options.heartbeat_timeout_us = kHeartbeatTimeoutUs;
  options.commit_timeout_us = 1'500'000;
  options.disconnected_grace_us = 300'000;
  return options;
}

}  // namespace

SpDaemon::SpDaemon(Simulator* sim, const Scenario& scenario, SpId sp_id, SpDatabase* database,
                   Network* network, Hooks hooks)
    : sim_(*sim),
      scenario_(scenario),
      sp_id_(sp_id),
      database_(*database),
      network_(*network),
      hooks_(std::move(hooks)),
      core_(CoreOptions(scenario, sp_id, sim->Number(), *database)),
      applier_(sim, scenario, database,
               {[this](const sp::ApplyEvent& event) {
                  core_.OnApplyEvent(event, sim_.now_us());
                  CarryOutActions();
                },
                hooks_.end_blocker}),
      links_(AddressesOf(scenario), 0) {
  network_.to_sp[sp_id] = [this](Network::Link link, const std::string& bytes) { OnMessage(link, bytes); };
  network_.on_lost[sp_id] = [this](Network::Link link) {
    std::ranges::replace(links_, link, Network::Link{0});
  };
  sim_.Trace("SP ", sp_id_, ": daemon starts at ", database_.state()->watermark);
  Tick();
}

SpDaemon::~SpDaemon() {
  network_.to_sp[sp_id_] = nullptr;
  network_.on_lost[sp_id_] = nullptr;
  for (const Network::Link link : links_) {
    if (link != 0) network_.Close(link);
  }
}

void SpDaemon::Submit(const sp::Submission& submission) {
  core_.Submit(submission, sim_.now_us());
  CarryOutActions();
}

void SpDaemon::AskOutcome(sp::Ticket ticket, const TxId& tx_id) {
  core_.AskOutcome(ticket, tx_id, sim_.now_us());
  CarryOutActions();
}

void SpDaemon::Hold(const sp::HoldRequest& request) {
  core_.Hold(request, sim_.now_us());
  CarryOutActions();
}

void SpDaemon::BackendGone(sp::Ticket ticket) {
  core_.BackendGone(ticket);
  CarryOutActions();
}

bool SpDaemon::Drained(GlobalT closed_t) const {
  return core_.connected() && core_.waiting() == 0 && applier_.idle() && database_.up() &&
         !database_.state()->joining && database_.state()->watermark == closed_t &&
         core_.Status(sim_.now_us()).state != "blocked";
}

std::string SpDaemon::StateText() const {
  return core_.Status(sim_.now_us()).state + ", " + std::to_string(core_.waiting()) + " waiting";
}

void SpDaemon::OnMessage(Network::Link link, const std::string& bytes) {
  const auto found = std::ranges::find(links_, link);
  if (found == links_.end() || is_refused_) return;
  const auto address = static_cast<std::size_t>(found - links_.begin());
  proto::ToSemiPrimary message;
  if (!message.ParseFromString(bytes)) return sim_.Violation("a malformed message arrived at SP ", sp_id_);
  if (message.refused().reason() == proto::Refused::STALE_PRIMARY) {
    sim_.After(100, alive_, [this, address] { hooks_.stale(address); });
  }
  if (address == used_) NoteTold(message);
  if (message.has_welcome() && !message.welcome().look()) {
    ++welcomes_;
    away_until_us_ = 0;
  }
  if (message.has_away() && address == used_) return TakeAway(std::move(message));
  core_.OnMessage(message, sim_.now_us(), address);
  const bool is_welcome = message.has_welcome() && !message.welcome().look() && core_.connected();
  if (is_welcome && address == used_) hooks_.followed(address, false);
  CarryOutActions();
  if (!core_.fatal()) return;
  is_refused_ = true;
  sim_.After(100, alive_, [this] { hooks_.refused(core_.Status(sim_.now_us()).last_error); });
}

void SpDaemon::TakeAway(proto::ToSemiPrimary message) {
  core_.OnTime(sim_.now_us());  // who is late by now is told
  CarryOutActions();
  const bool was_connected = core_.connected();
  if (scenario_.mutation == Mutation::kAwayRunsTimers) message.mutable_away()->set_limit_ms(0);
  core_.OnMessage(message, sim_.now_us(), used_);
  if (was_connected && !core_.connected()) away_until_us_ = sim_.now_us() + kAwayUs;
  CarryOutActions();
}

// Nobody is told that he has waited too long while the primary is away for planned work.
void SpDaemon::CheckReply(const sp::CommitReply& reply) {
  const auto* error = std::get_if<UserError>(&reply.answer);
  if (error == nullptr || sim_.now_us() >= away_until_us_) return;
  if (error->message == sp::NotConnectedError().message || error->sqlstate == "08007") {
    sim_.Violation("SP ", sp_id_, " tells of a lost primary, which is away for planned work");
  }
}

void SpDaemon::NoteTold(const proto::ToSemiPrimary& message) {
  for (const proto::Transaction& one : message.replicate().transactions()) {
    database_.NoteTold(one.global_t(), one.tx_id());
  }
  if (message.has_decision()) database_.NoteTold(message.decision().global_t(), message.decision().tx_id());
  if (message.has_outcome_reply()) {
    database_.NoteTold(message.outcome_reply().global_t(), message.outcome_reply().tx_id());
  }
}

void SpDaemon::Tick() {
  if (is_refused_) return;  // it ends
  for (std::size_t i = 0; i < links_.size(); ++i) {
    if (links_[i] == 0) links_[i] = network_.Connect(sp_id_, i);
  }
  core_.OnTime(sim_.now_us());
  const auto holding = core_.holding_transaction();
  if (holding && database_.up() && !database_.IsHolding(*holding)) {
    core_.OnApplyEvent(sp::HoldingTransactionEnded{*holding}, sim_.now_us());
  }
  CarryOutActions();
  NoteStatus();
  sim_.After(kTickUs, alive_, [this] { Tick(); });
}

// As the housekeeper does: what is told from before a crash says nothing of after it.
void SpDaemon::NoteStatus() {
  const sp::DaemonStatus status = core_.Status(sim_.now_us());
  if (!database_.up() || !sim_.Chance(20)) return;
  database_.NoteStatus(status.lacks_own || status.generation < sure_from_generation_);
  last_generation_ = status.generation;
}

// As the housekeeper does: newer ones take the place of those that wait.
void SpDaemon::SaveEpochs() {
  sim_.After(sim_.Between(200, 20'000), alive_, [this] {
    if (!unsaved_) return;
    if (!database_.up()) return SaveEpochs();
    const EpochStarts epochs = *std::exchange(unsaved_, std::nullopt);
    if (scenario_.mutation != Mutation::kEpochsAreNotSaved) {
      SpState next = *database_.state();
      next.epochs = epochs;
      next.follows_any = false;
      database_.Commit(std::move(next));
      database_.Flush();
    }
    core_.OnApplyEvent(sp::EpochsSaved{epochs}, sim_.now_us());
    if (core_.connected() && !unsaved_) hooks_.followed(used_, true);
    CarryOutActions();
  });
}

void SpDaemon::CarryOutActions() {
  sp::Core::Actions actions = core_.TakeActions();
  if (actions.reconnect) {
    if (link() != 0) network_.Close(link());
    link() = network_.Connect(sp_id_, used_);
  }
  if (actions.go_to && *actions.go_to != used_) {
    if (link() != 0) network_.Close(link());
    link() = network_.Connect(sp_id_, used_);
    used_ = *actions.go_to;
  }
  for (const proto::ToPrimary& look : actions.looks) {
    for (const Network::Link each : links_) {
      if (each != 0) network_.SendToPrimary(each, look.SerializeAsString());
    }
  }
  for (const proto::ToPrimary& message : actions.messages) {
    if (link() == 0) break;
    const bool twice = message.has_certify() && sim_.Chance(3);
    for (int i = 0; i < (twice ? 2 : 1); ++i) network_.SendToPrimary(link(), message.SerializeAsString());
    if (message.stream_request().with_copy() && scenario_.mutation == Mutation::kJoinerAcknowledges) {
      proto::ToPrimary ack;
      ack.set_epoch(message.epoch());
      ack.mutable_ack()->set_watermark(0);
      network_.SendToPrimary(link(), ack.SerializeAsString());
    }
  }
  for (const sp::CommitReply& reply : actions.replies) {
    CheckReply(reply);
    hooks_.reply(reply);
  }
  for (sp::ApplyStep& step : actions.steps) applier_.Push(std::move(step));
  if (actions.save_epochs) {
    unsaved_ = std::move(actions.save_epochs);
    SaveEpochs();
  }
  for (const Note& note : actions.notes) sim_.Trace("SP ", sp_id_, ": ", note.text);
}

}  // namespace psp::simulation
