#include "semi_primary/apply/segments.h"

#include "embedded/constants.h"

namespace psp::sp {

Segments::Segments(const proto::WriteSet& schema_change) {
  for (int i = 0; i < schema_change.rows_size(); ++i) {
    const bool is_statement = schema_change.rows(i).table_id() == kSchemaHistoryId;
    if (i == 0 || is_statement != segments_.back().has_statements) segments_.push_back({i, i, is_statement});
    segments_.back().end = i + 1;
  }
  if (segments_.empty()) segments_.emplace_back();
}

}  // namespace psp::sp
