#include "primary/connections/connections.h"

#include <algorithm>

namespace psp::primary {
namespace {

proto::Refused Refuse(proto::Refused::Reason reason, const std::string& message) {
  proto::Refused refused;
  refused.set_reason(reason);
  refused.set_message(message);
  return refused;
}

}  // namespace

void Connections::SetRegistry(std::vector<RegisteredSp> registry) {
  registry_.clear();
  for (RegisteredSp& sp : registry) {
    const SpId sp_id = sp.sp_id;
    registry_.emplace(sp_id, std::move(sp));
  }
}

std::optional<proto::Refused> Connections::Objection(const proto::Hello& hello, GlobalT truncated_t,
                                                     std::int64_t now_us) const {
  using proto::Refused;
  if (hello.protocol_version() != kProtocolVersion) {
    const bool sp_is_older = hello.protocol_version() < kProtocolVersion;
    return Refuse(Refused::PROTOCOL_VERSION, "the primary speaks protocol " +
                                                 std::to_string(kProtocolVersion) + ", the semi-primary " +
                                                 std::to_string(hello.protocol_version()) + ": start the " +
                                                 (sp_is_older ? "semi-primary's" : "primary's") +
                                                 " daemon of the newer psp, it says what its database needs");
  }
  if (hello.cluster_id() != settings_.cluster_id) {
    return Refuse(Refused::WRONG_CLUSTER, "this primary belongs to another cluster");
  }
  const auto registered = registry_.find(hello.sp_id());
  const bool is_known = registered != registry_.end() && !registered->second.released;
  const bool is_joining = is_known && registered->second.acked_t < 0;
  if (is_known && !is_joining && hello.watermark() < truncated_t) {
    return Refuse(Refused::LOG_TRUNCATED, "the log begins after " + std::to_string(truncated_t) +
                                              ", the semi-primary stands at " +
                                              std::to_string(hello.watermark()) + ": join again");
  }
  // After the log's beginning, since older epochs are forgotten; before the registry, which may be old, too. Who needs a copy has nothing yet.
  const bool needs_copy = is_joining && hello.newest_t() <= 0;
  if (std::string stale = FollowedObjection(settings_.epochs, hello.followed());
      !stale.empty() && !needs_copy) {
    return Refuse(Refused::STALE_PRIMARY, stale);
  }
  if (!is_known) {
    return Refuse(Refused::UNKNOWN_SP,
                  "semi-primary " + std::to_string(hello.sp_id()) +
                      (registered == registry_.end() ? " is not registered" : " was released"));
  }
  const RegisteredSp& sp = registered->second;
  if (sp.name != hello.name()) {
    return Refuse(Refused::NAME_MISMATCH, "semi-primary " + std::to_string(sp.sp_id) + " is named " +
                                              sp.name + ", not " + hello.name());
  }
  const auto peer = peers_.find(sp.sp_id);
  if (!hello.look() && peer != peers_.end() && peer->second.incarnation != hello.incarnation() &&
      now_us - peer->second.heard_us < settings_.heartbeat_timeout_us) {
    return Refuse(Refused::DUPLICATE_SP, "another daemon of semi-primary " + sp.name + " is connected");
  }
  const std::string lost = HistoryObjection(settings_.epochs, hello.newest_t(), hello.history());
  if (!lost.empty()) return Refuse(Refused::OTHER_HISTORY, lost);
  for (const proto::OwnCommit& own : hello.own_commits()) {
    const TxId tx_id = TxId::FromBytes(own.tx_id()).value_or(TxId());
    const std::string objection =
        OwnCommitObjection(settings_.epochs, settings_.kept, own.global_t(), tx_id, own.history());
    if (!objection.empty()) return Refuse(Refused::OTHER_HISTORY, objection);
  }
  return std::nullopt;
}

Connections::HelloAnswer Connections::Hello(std::string_view route, const proto::Hello& hello,
                                            GlobalT truncated_t, bool registry_is_fresh,
                                            std::int64_t now_us) {
  if (auto refused = Objection(hello, truncated_t, now_us)) {
    const bool may_be_new =
        refused->reason() == proto::Refused::UNKNOWN_SP || refused->reason() == proto::Refused::NAME_MISMATCH;
    if (may_be_new && !registry_is_fresh) return {HelloAnswer::Kind::kAskRegistry, {}};
    refused->set_look(hello.look());
    return {HelloAnswer::Kind::kRefused, std::move(*refused)};
  }
  if (hello.look()) return {HelloAnswer::Kind::kLook, {}};
  Goodbye(hello.sp_id());  // its older route, if any
  const auto other = by_route_.find(route);
  if (other != by_route_.end()) Goodbye(other->second);  // one route is one SP
  peers_[hello.sp_id()] = {std::string(route), hello.incarnation(), now_us};
  by_route_[std::string(route)] = hello.sp_id();
  return {HelloAnswer::Kind::kWelcome, {}};
}

std::optional<SpId> Connections::OnMessageFrom(std::string_view route, Epoch epoch, std::int64_t now_us) {
  const auto found = by_route_.find(route);
  if (found == by_route_.end() || epoch != settings_.epoch) return std::nullopt;
  peers_.at(found->second).heard_us = now_us;
  return found->second;
}

void Connections::Goodbye(SpId sp_id) {
  const auto peer = peers_.find(sp_id);
  if (peer == peers_.end()) return;
  by_route_.erase(peer->second.route);
  peers_.erase(peer);
}

EpochStarts Connections::EpochsSince(std::string_view history) const {
  const EpochStarts& epochs = settings_.epochs;
  auto first = std::ranges::find(epochs, history, &EpochStart::history);
  if (first == epochs.end() && !epochs.empty()) --first;
  return {first, epochs.end()};
}

std::vector<SpId> Connections::Expire(std::int64_t now_us) {
  std::vector<SpId> expired;
  for (const auto& [sp_id, peer] : peers_) {
    if (now_us - peer.heard_us >= settings_.heartbeat_timeout_us) expired.push_back(sp_id);
  }
  for (const SpId sp_id : expired) Goodbye(sp_id);
  return expired;
}

std::vector<SpId> Connections::RemoveReleased() {
  std::vector<SpId> released;
  for (const auto& [sp_id, peer] : peers_) {
    const auto registered = registry_.find(sp_id);
    if (registered == registry_.end() || registered->second.released) released.push_back(sp_id);
  }
  for (const SpId sp_id : released) Goodbye(sp_id);
  return released;
}

const std::string* Connections::RouteOf(SpId sp_id) const {
  const auto peer = peers_.find(sp_id);
  return peer == peers_.end() ? nullptr : &peer->second.route;
}

std::optional<std::int64_t> Connections::HeardUs(SpId sp_id) const {
  const auto peer = peers_.find(sp_id);
  return peer == peers_.end() ? std::nullopt : std::optional(peer->second.heard_us);
}

std::uint64_t Connections::IncarnationOf(SpId sp_id) const {
  const auto peer = peers_.find(sp_id);
  return peer == peers_.end() ? 0 : peer->second.incarnation;
}

}  // namespace psp::primary
