#include "writeset/check.h"

#include <cstdint>
#include <limits>

namespace psp {
namespace {

constexpr std::uint32_t kTableIdMax = std::numeric_limits<std::int32_t>::max();

std::string ProblemOf(const proto::Row& row) {
  if (row.table_id() == 0 || row.table_id() > kTableIdMax) return "malformed write-set: impossible table_id";
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
  if (write_set.kind() != proto::ENTRY_ROWS)
    return "unknown kind " + std::to_string(write_set.kind()) + " of an entry";
  for (const proto::Row& row : write_set.rows()) {
    if (std::string problem = ProblemOf(row); !problem.empty()) return problem;
  }
  return "";
}

}  // namespace psp
