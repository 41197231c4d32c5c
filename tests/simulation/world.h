// A whole run: one primary, its SPs and their clients; faults as the scenario says; then calm, and the
// checks.
#pragma once

#include <string>
#include <vector>

#include "tests/simulation/scenario.h"

namespace psp::simulation {

struct RunResult {
  std::vector<std::string> violations;
  std::string trace;  // of everything when asked for
  std::size_t committed = 0;
  std::size_t aborted = 0;
  std::size_t unknown = 0;
  std::size_t refused = 0;  // of the aborted ones: bad input
};

RunResult Run(const Scenario& scenario, bool tracing);

}  // namespace psp::simulation
