// libpq's connection strings. Pure; usable from any thread.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace psp {

// The connection string with these settings (names and values) added, in libpq's other notation. A string
// that it cannot parse is returned unchanged: libpq will report it.
std::string WithSettings(const std::string& conninfo,
                         const std::vector<std::pair<std::string, std::string>>& settings);

}  // namespace psp
