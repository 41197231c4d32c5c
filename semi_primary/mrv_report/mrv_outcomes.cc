#include "semi_primary/mrv_report/mrv_outcomes.h"

#include <utility>

#include "common/pg_binary.h"

namespace psp::sp {
namespace {

constexpr std::size_t kValuesMax = 20'000;  // between two reports; outcomes of more values are dropped

std::vector<RecordField> Decoded(std::string_view record) {
  std::vector<RecordField> fields;
  if (!DecodeRecord(&record, &fields).empty()) fields.clear();
  return fields;
}

}  // namespace

void MrvOutcomes::SetCatalog(TableCatalogPtr catalog) {
  catalog_ = std::move(catalog);
  counts_.clear();
}

void MrvOutcomes::Add(const proto::WriteSet& write_set, const RowKey* lost) {
  if (!catalog_ || catalog_->mrv_parts.empty()) return;
  std::set<Value> told;
  for (const proto::Row& row : write_set.rows()) {
    const auto parts = catalog_->mrv_parts.find(row.table_id());
    if (parts == catalog_->mrv_parts.end()) continue;
    if (lost != nullptr && (lost->table_id != row.table_id() || lost->key != row.key())) continue;
    AddRow(parts->second, row, lost != nullptr, &told);
  }
}

void MrvOutcomes::AddRow(const std::vector<MrvPart>& parts, const proto::Row& row, bool is_lost,
                         std::set<Value>* told) {
  std::vector<RecordField> key = Decoded(row.key());
  const std::vector<RecordField> image = Decoded(row.image());  // empty: the row was deleted
  for (const MrvPart& part : parts) {
    if (key.size() < part.key_size) continue;
    if (part.split_place) {
      const bool is_cold =
          *part.split_place < image.size() && image[*part.split_place].value == std::string_view("\0", 1);
      if (!is_cold) continue;
    }
    key.resize(part.key_size);
    Value value(part.column_id, "");
    AppendRecord(&value.second, key);
    if (!told->insert(value).second) continue;
    if (counts_.size() >= kValuesMax && !counts_.contains(value)) return;
    Counts& counts = counts_[std::move(value)];
    counts.is_split = counts.is_split || !part.split_place;
    ++(is_lost ? counts.aborts : counts.commits);
  }
}

MrvReport MrvOutcomes::TakeReport() {
  MrvReport report;
  for (const auto& [value, counts] : std::exchange(counts_, {})) {
    if (!counts.is_split && counts.aborts == 0) continue;
    report.outcomes.push_back({value.first, value.second, counts.commits, counts.aborts});
  }
  if (!report.outcomes.empty()) report.catalog = catalog_;
  return report;
}

}  // namespace psp::sp
