#include "mrv/split_values.h"

#include "common/clock.h"
#include "embedded/mrv_sql.h"

namespace psp::mrv {

SplitValues::SplitValues(int runner, std::int64_t runners, std::int64_t refresh_ms)
    : runner_(runner), runners_(runners), refresh_us_(refresh_ms * 1000) {}

void SplitValues::Prepare(WorkerSession* session) {
  session->Prepare("split_values", sql::kWorkerSplitValues);
}

void SplitValues::Refresh(WorkerSession* session) {
  const std::int64_t now_us = MonotonicUs();
  if (looked_us_ && now_us - *looked_us_ < refresh_us_) return;
  const auto rows = session->Call("split_values", runner_, runners_);
  if (!rows) return;
  looked_us_ = now_us;
  values_.clear();
  for (const pqxx::row& row : *rows) {
    std::optional<std::int64_t> changed_us;
    if (!row[2].is_null()) changed_us = row[2].as<std::int64_t>();
    values_.emplace(ValueId{.column_id = row[0].as<std::int32_t>(), .key = row[1].as<std::string>()},
                    changed_us);
  }
}

}  // namespace psp::mrv
