// The tables in a simulation: counters (id, n), names (id, value) with a unique value, parents (id, n), children (id, parent) with a
// foreign key, doctors (id, 1: on call), and the schema's history (change, 0).
// Keys, images and arrays are PostgreSQL's bytes, so that the real code packs and unpacks them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/ids.h"
#include "embedded/constants.h"
#include "semi_primary/apply/batch.h"

namespace psp::simulation {

inline constexpr std::uint32_t kHistoryTable = kSchemaHistoryId;
inline constexpr std::uint32_t kCounters = 1;
inline constexpr std::uint32_t kNames = 2;
inline constexpr std::uint32_t kNamesGuard = 3;
inline constexpr std::uint32_t kParents = 4;
inline constexpr std::uint32_t kChildren = 5;
inline constexpr std::uint32_t kDoctors = 6;
inline constexpr std::uint32_t kLastNumber = kDoctors;  // of the tables at adoption

// Of parents from 0 on. The last one must not have more children than this.
inline constexpr std::int64_t kParentRows = 3;
inline constexpr std::int64_t kLimitedParent = kParentRows - 1;
inline constexpr std::int64_t kLimitedChildren = 2;
inline constexpr std::int64_t kChildRows = 6;
inline constexpr std::int64_t kDoctorRows = 2;  // one of them must be on call

RowKey ChangeKey(std::int64_t change);
RowKey CounterKey(std::int64_t id);
RowKey NameKey(std::int64_t id);
RowKey NoteKey(std::uint32_t table_id, std::int64_t id);  // of a table that a schema change has created
RowKey GuardKey(std::int64_t value);
RowKey ParentKey(std::int64_t id);
RowKey ChildKey(std::int64_t id);
RowKey DoctorKey(std::int64_t id);

std::string Image(std::int64_t id, std::int64_t value);
std::int64_t ValueOf(const std::string& image);
// Of any key here.
std::int64_t IdOf(const RowKey& key);

struct RowChanges {
  std::vector<RowKey> deletes;
  std::vector<std::pair<RowKey, std::string>> upserts;
};
// What the SQL of the apply worker would make of an array of records.
std::vector<RowKey> UnpackKeys(std::uint32_t table_id, std::string_view array);
std::vector<std::pair<RowKey, std::string>> UnpackRows(std::uint32_t table_id, std::string_view array);

// For traces.
std::string Text(const RowKey& key);

}  // namespace psp::simulation
