#include "tests/simulation/sp_daemon.h"

#include "tests/simulation/primary_daemon.h"

namespace psp::simulation {
namespace {

constexpr std::int64_t kTickUs = 50'000;
constexpr std::int64_t kHelloAgainUs = 400'000;

Submissions::Options SubmissionOptions() {
  Submissions::Options options;
  options.commit_timeout_us = 1'500'000;
  options.disconnected_grace_us = 300'000;
  options.names = [](std::uint32_t) { return KeyNames{"public", "t", {"id"}, ""}; };
  options.sp_name = [](SpId sp_id) { return "sp" + std::to_string(sp_id); };
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
      incarnation_(sim->Number()),
      submissions_(SubmissionOptions()),
      position_(database->state()->watermark),
      applier_(sim, scenario, database,
               {[this](GlobalT watermark) {
                  submissions_.OnApplied(watermark);
                  Pump();
                },
                hooks_.end_blocker}) {
  network_.to_sp[sp_id] = [this](Network::Link link, const std::string& bytes) { OnMessage(link, bytes); };
  network_.on_lost[sp_id] = [this](Network::Link link) {
    if (link == link_) Disconnect();
  };
  sim_.Trace("SP ", sp_id_, ": daemon starts at ", position_.position());
  Tick();
}

SpDaemon::~SpDaemon() {
  network_.to_sp[sp_id_] = nullptr;
  network_.on_lost[sp_id_] = nullptr;
  if (link_ != 0) network_.Close(link_);
}

void SpDaemon::Submit(const Submission& submission) {
  submissions_.Submit(submission, sim_.now_us());
  Pump();
}

void SpDaemon::AskOutcome(Ticket ticket, const TxId& tx_id) {
  submissions_.AskOutcome(ticket, tx_id, sim_.now_us());
  Pump();
}

void SpDaemon::BackendGone(Ticket ticket) {
  submissions_.BackendGone(ticket);
  Pump();
}

// W may have fallen back: the stream begins anew from there.
void SpDaemon::OnPostgresBack() {
  applier_.Reset();
  position_.Reset(database_.state()->watermark);
  submissions_.OnStreamReset();
  if (welcomed_) Recover();
}

bool SpDaemon::Drained(GlobalT closed_t) const {
  return welcomed_ && submissions_.waiting() == 0 && applier_.idle() && database_.up() &&
         database_.state()->watermark == closed_t;
}

void SpDaemon::OnMessage(Network::Link link, const std::string& bytes) {
  if (link != link_) return;
  proto::ToSemiPrimary message;
  if (!message.ParseFromString(bytes)) return sim_.Violation("a malformed message arrived at SP ", sp_id_);
  if (message.has_welcome()) {
    OnWelcome(message);
  } else if (message.has_refused()) {
    if (message.refused().reason() != proto::Refused::DUPLICATE_SP) {
      return sim_.Violation("SP ", sp_id_, " is refused for good: reason ", message.refused().reason());
    }
  } else if (message.epoch() == epoch_ && welcomed_) {
    if (message.has_decision()) submissions_.OnDecision(message.decision());
    if (message.has_outcome_reply()) {
      const proto::OutcomeReply& reply = message.outcome_reply();
      submissions_.OnOutcomeReply(*TxId::FromBytes(reply.tx_id()), reply.global_t());
    }
    if (message.has_replicate()) OnReplicate(message.replicate());
  }
  Pump();
}

// Each Welcome answers a Hello, which has ended the stream at the primary: so each is followed by Recover.
void SpDaemon::OnWelcome(const proto::ToSemiPrimary& message) {
  if (message.welcome().say_hello()) {
    welcomed_ = false;
    submissions_.OnDisconnected();
    return SayHello();
  }
  epoch_ = message.epoch();
  welcomed_ = true;
  Recover();
  submissions_.OnConnected();
}

void SpDaemon::OnReplicate(const proto::Replicate& replicate) {
  const auto verdict = position_.Offer(replicate.from_t(), replicate.closed_t());
  if (verdict == StreamPosition::Verdict::kGap && !recovering_) Recover();
  if (verdict != StreamPosition::Verdict::kTake) return;
  recovering_ = false;
  std::vector<std::pair<Arrived, SpId>> all;
  for (const proto::Transaction& one : replicate.transactions()) {
    Arrived arrived{one.global_t(), *TxId::FromBytes(one.tx_id()), one.sp_id() == sp_id_, nullptr,
                    one.global_t()};
    if (one.has_write_set()) {
      auto write_set = std::make_shared<proto::WriteSet>();
      if (!write_set->ParseFromString(one.write_set())) sim_.Violation("a malformed write-set in the stream");
      arrived.write_set = std::move(write_set);
    } else {
      arrived.write_set = submissions_.WriteSetOf(arrived.tx_id);
    }
    all.emplace_back(std::move(arrived), one.sp_id());
  }
  if (scenario_.mutation == Mutation::kRemoteBeforeOwn) {
    for (const auto& [arrived, sp_id] : all) {
      if (!arrived.own) Learn(arrived, sp_id);
    }
  }
  for (const auto& [arrived, sp_id] : all) {
    if (arrived.own || scenario_.mutation != Mutation::kRemoteBeforeOwn) Learn(arrived, sp_id);
  }
  if (all.empty() && replicate.closed_t() > replicate.from_t()) {
    all.push_back({Arrived{replicate.closed_t(), TxId(), false, nullptr, 0}, 0});
  }
  if (!all.empty()) all.back().first.upto_t = replicate.closed_t();
  for (auto& [arrived, sp_id] : all) applier_.Take(std::move(arrived));
}

void SpDaemon::Learn(const Arrived& arrived, SpId sp_id) {
  if (arrived.own) {
    submissions_.OnOwnTransaction(arrived.tx_id, arrived.global_t);
  } else {
    submissions_.OnRemoteTransaction(arrived.global_t, sp_id, arrived.write_set);
  }
}

void SpDaemon::Disconnect() {
  sim_.Trace("SP ", sp_id_, ": connection lost");
  link_ = 0;
  welcomed_ = false;
  submissions_.OnDisconnected();
}

void SpDaemon::SayHello() {
  said_hello_us_ = sim_.now_us();
  proto::ToPrimary message;
  proto::Hello* hello = message.mutable_hello();
  hello->set_cluster_id(kClusterId);
  hello->set_sp_id(sp_id_);
  hello->set_name("sp" + std::to_string(sp_id_));
  hello->set_incarnation(incarnation_);
  hello->set_watermark(database_.durable_watermark());
  hello->set_protocol_version(kProtocolVersion);
  network_.SendToPrimary(link_, message.SerializeAsString());
}

void SpDaemon::Recover() {
  recovering_ = true;
  proto::ToPrimary message;
  message.mutable_recover()->set_from(position_.position());
  Send(&message);
}

void SpDaemon::Tick() {
  ++ticks_;
  if (link_ == 0) {
    link_ = network_.Connect(sp_id_);
    if (link_ != 0) SayHello();
  } else if (!welcomed_ && sim_.now_us() - said_hello_us_ >= kHelloAgainUs) {
    SayHello();
  }
  submissions_.OnTime(sim_.now_us());
  if (welcomed_ && ticks_ % 3 == 0) {
    proto::ToPrimary message;
    message.mutable_heartbeat()->set_applied(database_.state()->watermark);
    Send(&message);
  }
  if (welcomed_ && database_.up() && ticks_ % 5 == 0) Acknowledge();
  Pump();
  sim_.After(kTickUs, alive_, [this] { Tick(); });
}

void SpDaemon::Acknowledge() {
  if (scenario_.mutation != Mutation::kAckBeforeDurable) database_.Flush();
  proto::ToPrimary message;
  message.mutable_ack()->set_watermark(database_.state()->watermark);
  Send(&message);
}

void SpDaemon::Pump() {
  for (proto::ToPrimary& message : submissions_.TakeMessages()) {
    Send(&message);
    if (message.has_certify() && sim_.Chance(3)) Send(&message);
  }
  for (const Submissions::Reply& reply : submissions_.TakeReplies()) hooks_.reply(reply);
}

void SpDaemon::Send(proto::ToPrimary* message) {
  message->set_epoch(epoch_);
  if (link_ != 0) network_.SendToPrimary(link_, message->SerializeAsString());
}

}  // namespace psp::simulation
