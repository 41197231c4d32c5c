// What must hold in the end, when everything has been delivered (ARCHITECTURE.md, "What must always hold").
#pragma once

#include <map>

#include "tests/simulation/history.h"
#include "tests/simulation/primary_database.h"
#include "tests/simulation/simulator.h"
#include "tests/simulation/sp_database.h"

namespace psp::simulation {

// Each difference becomes a violation.
void CheckEverything(Simulator* sim, const Scenario& scenario, const History& history,
                     const PrimaryDatabase& primary, const Lost& lost,
                     const std::map<SpId, SpStatePtr>& semi_primaries);

}  // namespace psp::simulation
