// What the primary knows of the catalog of captured tables. Values.
#pragma once

#include <cstdint>
#include <unordered_set>

namespace psp {

struct KnownTables {
  std::uint32_t catalog_version = 0;
  std::unordered_set<std::uint32_t> ids;  // tables and guards
};

}  // namespace psp
