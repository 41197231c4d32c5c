#include "primary/certify/table_writers.h"

#include <string>

namespace psp::primary {

void TableWriters::Note(const CertifyRequest& request, GlobalT global_t) {
  std::optional<std::uint32_t> noted;
  for (const proto::Row& row : request.rows.rows()) {
    if (row.table_id() == noted) continue;
    noted = row.table_id();
    written_[row.table_id()].Note({request.sp_id, global_t}, request.watermark);
  }
}

std::optional<Commit> TableWriters::Lacking(std::uint32_t table_id, const SnapshotView& snapshot) const {
  const auto table = written_.find(table_id);
  if (table == written_.end()) return std::nullopt;
  return table->second.Missing(snapshot);
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
    const auto writer = Lacking(change.table_id(), {schema_change.watermark, schema_change.seen});
    if (!writer) continue;
    return {"SP " + std::to_string(writer->sp_id) + " has written rows of table_id " +
                std::to_string(change.table_id()) + " that the schema change has not seen (global_t " +
                std::to_string(writer->global_t) + ")",
            true};
  }
  return {};
}

std::optional<Conflict> TableWriters::LostRead(const CertifyRequest& request) const {
  for (const proto::KeyUse& use : request.uses.keys()) {
    if (use.kind() != proto::USE_TABLE_READ) continue;
    const RowKey table{use.table_id(), ""};
    if (start_t_ > request.watermark) return Conflict{table, start_t_, 0, use.kind()};
    if (const auto writer = Lacking(use.table_id(), {request.watermark, request.seen})) {
      return Conflict{table, writer->global_t, writer->sp_id, use.kind()};
    }
  }
  return std::nullopt;
}

}  // namespace psp::primary
