#include "tests/simulation/network.h"

#include <algorithm>

namespace psp::simulation {

Network::Link Network::Connect(SpId sp_id) {
  if (!to_primary) return 0;
  connections_[++last_].sp_id = sp_id;
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
    if (connections_.at(link).open && to_primary) to_primary(std::to_string(link), bytes);
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

void Network::Cut(SpId sp_id) {
  for (auto& [link, connection] : connections_) {
    if (connection.sp_id != sp_id || !connection.open) continue;
    Close(link);
    sim_.After(sim_.Between(0, 500'000), [this, sp_id, link = link] {
      if (on_lost[sp_id]) on_lost[sp_id](link);
    });
  }
}

void Network::CutAll() {
  for (const auto& [sp_id, take] : to_sp) Cut(sp_id);
}

}  // namespace psp::simulation
