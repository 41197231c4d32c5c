#include "writeset/check.h"

#include <cstdint>
#include <limits>

#include "embedded/constants.h"

namespace psp {
namespace {

constexpr std::uint32_t kTableIdMax = std::numeric_limits<std::int32_t>::max();

std::string ProblemOf(const proto::Row& row, bool may_change_schema) {
  if (row.table_id() > kTableIdMax) return "malformed write-set: impossible table_id";
  if (row.table_id() == kSchemaHistoryId) {
    if (!may_change_schema) return "malformed write-set: a schema change among rows";
    if (row.access() != proto::ACCESS_WRITE || row.deleted() || !row.has_image())
      return "malformed write-set: a schema change without its statement";
  }
  if (row.key().empty()) return "malformed write-set: a row without a key";
  switch (row.access()) {
    case proto::ACCESS_WRITE:
      return "";
    case proto::ACCESS_GUARD:
      if (row.deleted() || row.has_image()) return "malformed write-set: a guard has a row";
      return "";
    default:
      return "unknown access kind " + std::to_string(row.access()) + " in a write-set";
  }
}

}  // namespace

std::string ProblemOf(const proto::WriteSet& write_set) {
  if (!proto::EntryKind_IsValid(write_set.kind()))
    return "unknown kind " + std::to_string(write_set.kind()) + " of an entry";
  const bool may_change_schema = write_set.kind() == proto::ENTRY_SCHEMA_CHANGE;
  for (const proto::Row& row : write_set.rows()) {
    if (std::string problem = ProblemOf(row, may_change_schema); !problem.empty()) return problem;
  }
  return "";
}

}  // namespace psp
