// Connections between the SPs and the primary. Messages of one direction of a connection keep their order;
// connections know nothing of one another. A cut loses what is under way, and each end learns of it later.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <string>

#include "common/ids.h"
#include "tests/simulation/scenario.h"
#include "tests/simulation/simulator.h"

namespace psp::simulation {

class Network {
 public:
  using Link = std::uint64_t;  // one connection's name; 0: none

  Network(Simulator* sim, const Scenario& scenario) : sim_(*sim), scenario_(scenario) {}

  // By address, of which there are two where a primary may have two servers. Who takes what arrives; an empty function: nobody is there.
  std::array<std::function<void(const std::string& route, const std::string& bytes)>, 2> to_primary;
  std::map<SpId, std::function<void(Link, const std::string& bytes)>> to_sp;
  std::map<SpId, std::function<void(Link)>> on_lost;

  // Whose connection it is, or was.
  SpId SpOf(const std::string& route) const { return connections_.at(std::stoull(route)).sp_id; }
  bool IsOpen(Link link) const { return link != 0 && connections_.at(link).open; }
  // A new connection; 0 while no daemon of the primary is there.
  Link Connect(SpId sp_id, std::size_t address);
  void SendToPrimary(Link link, const std::string& bytes);
  // False when the primary knows already that the connection is gone.
  bool SendToSp(const std::string& route, const std::string& bytes);

  void Cut(SpId sp_id);
  void CutAll(std::size_t address);
  void Close(Link link);  // by the SP, which knows
  void SetSlow(SpId sp_id, bool slow) { slow_[sp_id] = slow; }

 private:
  struct Connection {
    SpId sp_id = 0;
    std::size_t address = 0;
    bool open = true;
    bool primary_knows = false;
    std::int64_t up_free_us = 0;  // when the last message arrives
    std::int64_t down_free_us = 0;
  };

  std::int64_t DelayUs(SpId sp_id);
  void CutWhere(const std::function<bool(const Connection&)>& is_cut);

  Simulator& sim_;
  const Scenario& scenario_;
  Link last_ = 0;
  std::map<Link, Connection> connections_;
  std::map<SpId, bool> slow_;
};

}  // namespace psp::simulation
