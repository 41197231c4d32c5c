// Which start of a primary's daemon decided which numbers. Each start begins an epoch: it draws a random id,
// the epoch's history, and gives out the numbers after the newest committed one. A primary that was restored
// from a backup, or promoted without the newest transactions, gives out some numbers again. A semi-primary
// that has the lost transactions sees by the history that these numbers now mean others.
//
// Batches commit side by side. So a primary that lost transactions may have a number and lack a smaller one.
// A primary whose PostgreSQL crashed in the middle of a batch looks the same, but then semi-primaries know of
// nothing from that batch on, except of their own commits. Therefore an epoch begins at the first number
// whose batch is not known to be decided. Committed transactions above that number are kept, by their ids.
//
// Values, pure.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/ids.h"

namespace psp {

struct EpochStart {
  std::string history;  // 16 bytes
  GlobalT start_t = 0;  // the first number that only this epoch and later ones may have decided

  friend bool operator==(const EpochStart&, const EpochStart&) = default;
};

// In the order in which they began; start_t ascends, and those that decided nothing share it with the next one. The oldest epochs are
// left out when no semi-primary's position can be in them any more.
using EpochStarts = std::vector<EpochStart>;

inline bool Contains(const EpochStarts& epochs, std::string_view history) {
  return std::ranges::any_of(epochs, [&](const EpochStart& epoch) { return epoch.history == history; });
}

// Whether the primary of `epochs` went on from the epoch `older`, which is not its own. Never true both ways, as nobody has an epoch before it
// began.
inline bool IsNewer(const EpochStarts& epochs, std::string_view older) {
  return !epochs.empty() && epochs.back().history != older && Contains(epochs, older);
}

// Why a semi-primary that has followed the epoch `followed` last must not follow the primary of `epochs`: this one is an older
// one, or a fork. Empty: it may. `followed` is empty where it has followed nobody, or an administrator gives it free: docs/decisions/66.
inline std::string FollowedObjection(const EpochStarts& epochs, std::string_view followed) {
  if (followed.empty() || Contains(epochs, followed)) return {};
  return "this primary is an older one, or a fork: it lacks a start of psp-primary that this semi-primary "
         "has followed since. "
         "The semi-primary waits for the newer one. If that one is lost for good, or this one was restored "
         "from a backup on purpose: "
         "psp schema accept-loss";
}

// Whether what a semi-primary has, and the primary of `epochs` lacks, is given up: since the two parted this primary has committed more.
// `lineage`: the epochs that the semi-primary has followed, in their order; both were one in those that the primary has, too.
// `newest_ts`: of each of `epochs`, the newest number when it began. (An epoch over a gap begins below it.)
inline bool IsGivenUp(const EpochStarts& epochs, const std::vector<GlobalT>& newest_ts,
                      const std::vector<std::string>& lineage) {
  for (auto followed = lineage.rbegin(); followed != lineage.rend(); ++followed) {
    const auto common = std::ranges::find(epochs, *followed, &EpochStart::history);
    if (common == epochs.end()) continue;
    const auto next = static_cast<std::size_t>(common - epochs.begin()) + 1;
    return next < newest_ts.size() && newest_ts[next] < newest_ts.back();
  }
  return false;
}

// The history of the epoch that decided a number; empty when `epochs` begin after it.
inline std::string HistoryOf(const EpochStarts& epochs, GlobalT global_t) {
  std::string history;
  for (const EpochStart& epoch : epochs) {
    if (epoch.start_t <= global_t) history = epoch.history;
  }
  return history;
}

// Committed transactions by their numbers.
using Commits = std::map<GlobalT, TxId>;

// The numbers of a batch: each is committed, or will never be.
struct NumberRange {
  GlobalT first_t = 0;
  GlobalT last_t = 0;

  friend bool operator==(const NumberRange&, const NumberRange&) = default;
};

// The last number up to which all are decided, when those up to settled_t and those of `batches` are.
inline GlobalT UnbrokenUpTo(GlobalT settled_t, std::vector<NumberRange> batches) {
  std::sort(batches.begin(), batches.end(),
            [](const NumberRange& a, const NumberRange& b) { return a.first_t < b.first_t; });
  for (const NumberRange& batch : batches) {
    if (batch.first_t > settled_t + 1) break;
    settled_t = std::max(settled_t, batch.last_t);
  }
  return settled_t;
}

// Why a semi-primary whose newest number `newest_t` was decided under `history` cannot belong to the primary
// of these epochs. Empty: both have the same transactions up to there. newest_t 0: only rows from adoption.
inline std::string HistoryObjection(const EpochStarts& epochs, GlobalT newest_t, std::string_view history) {
  if (newest_t <= 0 || (!history.empty() && HistoryOf(epochs, newest_t) == history)) return {};
  return "this semi-primary has transactions, up to global_t " + std::to_string(newest_t) +
         ", that the primary does not have: the primary's database was restored from a backup, or promoted "
         "before it had everything. Let this semi-primary join again: psp schema release, then psp cluster "
         "join from an empty database";
}

// The same for one of its own commits, decided under `history`, above the number up to which it has
// everything. `kept`: the commits that the primary's epochs found above their beginnings.
inline std::string OwnCommitObjection(const EpochStarts& epochs, const Commits& kept, GlobalT global_t,
                                      const TxId& tx_id, std::string_view history) {
  const auto found = kept.find(global_t);
  if (found != kept.end() && found->second == tx_id) return {};
  return HistoryObjection(epochs, global_t, history);
}

}  // namespace psp
