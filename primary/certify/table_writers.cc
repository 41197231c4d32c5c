#include "primary/certify/table_writers.h"

#include <algorithm>
#include <string>

namespace psp::primary {

void TableWriters::Note(const CertifyRequest& request, GlobalT global_t) {
  GlobalT* newest = nullptr;
  std::uint32_t table_id = 0;
  for (const proto::Row& row : request.rows.rows()) {
    if (newest == nullptr || row.table_id() != table_id) {
      table_id = row.table_id();
      newest = &newest_[table_id][request.sp_id];
    }
    *newest = std::max(*newest, global_t);
  }
}

Refusal TableWriters::Missing(const CertifyRequest& schema_change) const {
  const auto& changes = schema_change.rows.table_changes();
  if (!changes.empty() && start_t_ > schema_change.watermark) {
    return {"the semi-primary stood at " + std::to_string(schema_change.watermark) +
                ", the primary has begun at " + std::to_string(start_t_) +
                " and does not know which tables were written before",
            true};
  }
  for (const proto::TableChange& change : changes) {
    const auto table = newest_.find(change.table_id());
    if (table == newest_.end()) continue;
    for (const auto& [sp_id, global_t] : table->second) {
      if (sp_id == schema_change.sp_id || global_t <= schema_change.watermark) continue;
      return {"SP " + std::to_string(sp_id) + " has written rows of table_id " +
                  std::to_string(change.table_id()) + " that the schema change has not seen (global_t " +
                  std::to_string(global_t) + ")",
              true};
    }
  }
  return {};
}

}  // namespace psp::primary
