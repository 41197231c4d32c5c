// libpq's connection strings. Pure; usable from any thread.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace psp {

// The connection string, in libpq's other notation, of sessions that begin with these settings (names and
// values). What it cannot read it returns as it is: libpq will tell.
std::string WithSettings(const std::string& conninfo,
                         const std::vector<std::pair<std::string, std::string>>& settings);

}  // namespace psp
