// A synchronous standby of the primary's PostgreSQL: a copy of its database as of a WAL position, which follows unless it is cut off.
#pragma once

#include <cstdint>
#include <memory>

#include "tests/simulation/primary_database.h"
#include "tests/simulation/simulator.h"

namespace psp::simulation {

class Standby {
 public:
  // Begins as a copy of the database, which it then follows; both must outlive it.
  Standby(Simulator* sim, const PrimaryDatabase* followed)
      : sim_(*sim), followed_(*followed), copy_(*followed) {
    Follow();
  }

  void SetCut(bool is_cut) { is_cut_ = is_cut; }
  bool is_cut() const { return is_cut_; }

  bool Has(std::uint64_t position) const { return copy_.written() >= position; }
  std::uint64_t flushed() const { return copy_.written(); }
  const PrimaryDatabase& copy() const { return copy_; }

 private:
  void Follow() {
    if (!is_cut_ && !Has(followed_.written())) copy_ = followed_;
    sim_.After(sim_.Between(200, 6'000), alive_, [this] { Follow(); });
  }

  Simulator& sim_;
  const PrimaryDatabase& followed_;
  PrimaryDatabase copy_;
  bool is_cut_ = false;
  const std::shared_ptr<const int> alive_ = std::make_shared<int>(0);
};

}  // namespace psp::simulation
