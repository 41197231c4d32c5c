// The text `WATERMARK SEEN`, as the commit hook and the triggers on referenced keys write a snapshot
// (writeset/FORMAT.md). Pure.
#pragma once

#include <optional>
#include <string_view>

#include "proto/psp.pb.h"

namespace psp {

// SEEN is a comma list of numbers, or - for none. Nothing if it is malformed, or if the snapshot is (check.h).
std::optional<proto::Snapshot> ParseSnapshot(std::string_view watermark, std::string_view seen);
std::optional<proto::Snapshot> ParseSnapshot(std::string_view text);

}  // namespace psp
