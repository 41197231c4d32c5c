// Which start of a primary's daemon decided which numbers. Each start begins an epoch: it draws a random id,
// the epoch's history, and goes on with the number after the newest that is committed. A primary that was
// restored from a backup, or promoted without the newest transactions, gives out numbers again; whoever has
// the lost ones tells by their history that they are others.
//
// Values, pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/ids.h"

namespace psp {

struct EpochStart {
  std::string history;  // 16 bytes
  GlobalT start_t = 0;  // the first number that the epoch could give out

  friend bool operator==(const EpochStart&, const EpochStart&) = default;
};

// Ascending start_t. Epochs that no semi-primary can stand in any more are left out at the beginning.
using EpochStarts = std::vector<EpochStart>;

// The history of the epoch that decided a number; empty when `epochs` do not reach back to it.
inline std::string HistoryOf(const EpochStarts& epochs, GlobalT global_t) {
  std::string history;
  for (const EpochStart& epoch : epochs) {
    if (epoch.start_t <= global_t) history = epoch.history;
  }
  return history;
}

// Why a semi-primary whose newest number `newest_t` was decided under `history` cannot belong to the primary
// of these epochs; empty when everything up to there is the same at both. 0: it has nothing but what was
// there at adoption.
inline std::string HistoryObjection(const EpochStarts& epochs, GlobalT newest_t, std::string_view history) {
  if (newest_t <= 0 || (!history.empty() && HistoryOf(epochs, newest_t) == history)) return {};
  return "this semi-primary has transactions, up to global_t " + std::to_string(newest_t) +
         ", that the primary does not have: the primary's database was restored from a backup, or promoted "
         "before it had everything. Let this semi-primary join anew: psp schema release, then psp cluster "
         "join from an empty database";
}

}  // namespace psp
