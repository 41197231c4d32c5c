#include "writeset/check.h"

#include <cstdint>
#include <limits>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_set>
#include <vector>

#include "common/ids.h"
#include "embedded/constants.h"

namespace psp {
namespace {

constexpr std::uint32_t kTableIdMax = std::numeric_limits<std::int32_t>::max();

std::string ProblemOf(const proto::Row& row, bool is_schema_change) {
  if (row.table_id() > kTableIdMax) return "malformed write-set: impossible table_id";
  if (row.table_id() == kSchemaHistoryId) {
    if (!is_schema_change) return "malformed write-set: a schema change among rows";
    if (row.access() != proto::ACCESS_WRITE || row.deleted() || !row.has_image())
      return "malformed write-set: a schema change without its statement";
  }
  if (row.key().empty()) return "malformed write-set: a row without a key";
  switch (row.access()) {
    case proto::ACCESS_WRITE:
      if (row.table_id() == kAdvisoryLocksId) return "malformed write-set: an advisory lock is no guard";
      if (row.has_image() == row.deleted())
        return row.deleted() ? "malformed write-set: a deleted row has an image"
                             : "malformed write-set: a row without its image";
      if (row.gone_before() && !(row.deleted() && is_schema_change))
        return "malformed write-set: a row is gone without a statement";
      return "";
    case proto::ACCESS_GUARD:
      if (row.deleted() || row.has_image()) return "malformed write-set: a guard has a row";
      return "";
    default:
      return "unknown access kind " + std::to_string(row.access()) + " in a write-set";
  }
}

std::string ProblemOfChanges(const proto::WriteSet& write_set) {
  if (write_set.table_changes().empty()) return "";
  if (write_set.kind() != proto::ENTRY_SCHEMA_CHANGE)
    return "malformed write-set: tables are changed among rows";
  std::unordered_set<std::uint32_t> numbers;  // of tables and guards
  for (const proto::TableChange& change : write_set.table_changes()) {
    std::vector<std::uint32_t> some(change.guard_ids().begin(), change.guard_ids().end());
    some.push_back(change.table_id());
    for (const std::uint32_t number : some) {
      if (number == kSchemaHistoryId || number > kTableIdMax)
        return "malformed write-set: impossible changed table";
      if (!numbers.insert(number).second) return "malformed write-set: a changed table is named twice";
    }
  }
  return "";
}

}  // namespace

std::string ProblemOf(const proto::WriteSet& write_set) {
  if (!proto::EntryKind_IsValid(write_set.kind()))
    return "unknown kind " + std::to_string(write_set.kind()) + " of an entry";
  if (std::string problem = ProblemOfChanges(write_set); !problem.empty()) return problem;
  const bool is_schema_change = write_set.kind() == proto::ENTRY_SCHEMA_CHANGE;
  for (const proto::Row& row : write_set.rows()) {
    if (std::string problem = ProblemOf(row, is_schema_change); !problem.empty()) return problem;
  }
  return "";
}

std::string ProblemOf(const proto::KeyUses& uses) {
  std::set<std::tuple<proto::UseKind, std::uint32_t, std::string_view>> seen;
  for (const proto::KeyUse& use : uses.keys()) {
    if (!proto::UseKind_IsValid(use.kind()))
      return "unknown kind " + std::to_string(use.kind()) + " of a key's use";
    if (use.table_id() == kSchemaHistoryId || use.table_id() >= kAdvisoryLocksId)
      return "malformed key use: impossible table_id";
    if (use.key().empty() != (use.kind() == proto::USE_TABLE_READ))
      return use.key().empty() ? "malformed key use: no key" : "malformed key use: a whole table has a key";
    if (!seen.emplace(use.kind(), use.table_id(), use.key()).second)
      return "malformed key use: a key is named twice";
  }
  return uses.has_ended_snapshot() ? ProblemOf(uses.ended_snapshot()) : "";
}

std::string ProblemOf(const proto::Snapshot& snapshot) {
  if (snapshot.watermark() < 0) return "malformed snapshot: a negative watermark";
  GlobalT before = snapshot.watermark();
  for (const GlobalT global_t : snapshot.seen()) {
    if (global_t <= before) return "malformed snapshot: `seen` does not ascend above the watermark";
    before = global_t;
  }
  return "";
}

}  // namespace psp
