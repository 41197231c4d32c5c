// The versions of schema psp: what a daemon says when its database was made by another psp.
#pragma once

#include <string>

namespace psp {

// Why a daemon that needs version `needed` cannot serve a schema of version `found`, and what to do; empty
// when it can. `upgrade` says what brings an older schema to this version.
inline std::string VersionObjection(int found, int needed, const std::string& upgrade) {
  if (found == needed) return {};
  return "schema psp has version " + std::to_string(found) + ", this daemon needs " + std::to_string(needed) +
         ": " + (found < needed ? upgrade : "a newer psp has made it, start that one's daemon");
}

}  // namespace psp
