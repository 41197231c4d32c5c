#include "tests/simulation/network.h"

#include <algorithm>

namespace psp::simulation {

Network::Link Network::Connect(SpId sp_id, std::size_t address) {
  if (!to_primary.at(address)) return 0;
  Connection& connection = connections_[++last_];
  connection.sp_id = sp_id;
  connection.address = address;
  return last_;
}

std::int64_t Network::DelayUs(SpId sp_id) {
  const std::int64_t base_us = scenario_.latency_us * sp_id / scenario_.sps;
  return sim_.Between(base_us / 2, base_us + 200) * (slow_[sp_id] ? 20 : 1);
}

void Network::SendToPrimary(Link link, const std::string& bytes) {
  Connection& connection = connections_.at(link);
  if (!connection.open) return;
  connection.up_free_us = std::max(connection.up_free_us, sim_.now_us() + DelayUs(connection.sp_id));
  sim_.At(connection.up_free_us, [this, link, bytes] {
    const Connection& now = connections_.at(link);
    const auto& take = to_primary.at(now.address);
    if (now.open && take) take(std::to_string(link), bytes);
  });
}

bool Network::SendToSp(const std::string& route, const std::string& bytes) {
  const Link link = std::stoull(route);
  Connection& connection = connections_.at(link);
  if (!connection.open) return !connection.primary_knows;
  connection.down_free_us = std::max(connection.down_free_us, sim_.now_us() + DelayUs(connection.sp_id));
  sim_.At(connection.down_free_us, [this, link, bytes] {
    const Connection& now = connections_.at(link);
    if (now.open && to_sp[now.sp_id]) to_sp[now.sp_id](link, bytes);
  });
  return true;
}

void Network::Close(Link link) {
  Connection& connection = connections_.at(link);
  if (!connection.open) return;
  connection.open = false;
  sim_.After(sim_.Between(0, 500'000), [this, link] { connections_.at(link).primary_knows = true; });
}

void Network::CutWhere(const std::function<bool(const Connection&)>& is_cut) {
  for (auto& [link, connection] : connections_) {
    if (!connection.open || !is_cut(connection)) continue;
    Close(link);
    sim_.After(sim_.Between(0, 500'000), [this, sp_id = connection.sp_id, link = link] {
      if (on_lost[sp_id]) on_lost[sp_id](link);
    });
  }
}

void Network::Cut(SpId sp_id) {
  CutWhere([sp_id](const Connection& connection) { return connection.sp_id == sp_id; });
}

void Network::CutAll(std::size_t address) {
  CutWhere([address](const Connection& connection) { return connection.address == address; });
}

}  // namespace psp::simulation
