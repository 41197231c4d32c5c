#include "writeset/snapshot_text.h"

#include "common/ids.h"
#include "common/parse_number.h"
#include "writeset/check.h"

namespace psp {

std::optional<proto::Snapshot> ParseSnapshot(std::string_view watermark, std::string_view seen) {
  const auto applied = ParseNumber<GlobalT>(watermark);
  if (!applied) return std::nullopt;
  proto::Snapshot snapshot;
  snapshot.set_watermark(*applied);
  if (seen != "-") {
    const auto numbers = ParseNumbers<GlobalT>(seen);
    if (!numbers) return std::nullopt;
    snapshot.mutable_seen()->Add(numbers->begin(), numbers->end());
  }
  if (!ProblemOf(snapshot).empty()) return std::nullopt;
  return snapshot;
}

std::optional<proto::Snapshot> ParseSnapshot(std::string_view text) {
  const std::size_t space = text.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  return ParseSnapshot(text.substr(0, space), text.substr(space + 1));
}

}  // namespace psp
