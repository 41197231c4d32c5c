#include "primary/certify/table_writers.h"

#include <algorithm>
#include <optional>
#include <string>

namespace psp::primary {

void TableWriters::Note(const CertifyRequest& request, GlobalT global_t) {
  std::optional<std::uint32_t> noted;
  for (const proto::Row& row : request.rows.rows()) {
    if (row.table_id() == noted) continue;
    noted = row.table_id();
    std::set<GlobalT>& numbers = written_[row.table_id()][request.sp_id];
    numbers.insert(global_t);
    numbers.erase(numbers.begin(), numbers.upper_bound(request.watermark));
  }
}

Refusal TableWriters::Missing(const CertifyRequest& schema_change) const {
  const auto& changes = schema_change.rows.table_changes();
  const auto& seen = schema_change.seen;
  if (!changes.empty() && start_t_ > schema_change.watermark) {
    return {"the semi-primary stood at " + std::to_string(schema_change.watermark) +
                ", the primary has begun at " + std::to_string(start_t_) +
                " and does not know which tables were written before",
            true};
  }
  for (const proto::TableChange& change : changes) {
    const auto table = written_.find(change.table_id());
    if (table == written_.end()) continue;
    for (const auto& [sp_id, numbers] : table->second) {
      const auto lacks = [&](GlobalT global_t) { return std::ranges::find(seen, global_t) == seen.end(); };
      const auto lacking = std::find_if(numbers.upper_bound(schema_change.watermark), numbers.end(), lacks);
      if (lacking == numbers.end()) continue;
      return {"SP " + std::to_string(sp_id) + " has written rows of table_id " +
                  std::to_string(change.table_id()) + " that the schema change has not seen (global_t " +
                  std::to_string(*lacking) + ")",
              true};
    }
  }
  return {};
}

}  // namespace psp::primary
