// What the capture triggers write, for tests.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/pg_binary.h"

namespace psp::chunks {

inline std::string Entry(std::string_view key, std::optional<std::string_view> image = std::nullopt) {
  std::vector<RecordField> fields{{kOidBytea, key}};
  if (image) fields.push_back({kOidBytea, *image});
  std::string out;
  AppendRecord(&out, fields);
  return out;
}

inline std::string Chunk(std::int32_t table_id, char op, std::string_view payload, std::int32_t command = 0) {
  std::string cmin;
  AppendInt32(&cmin, command);
  std::string id;
  AppendInt32(&id, table_id);
  std::string out;
  AppendRecord(&out,
               {{kOidCid, cmin}, {kOidInt4, id}, {kOidChar, std::string_view(&op, 1)}, {kOidBytea, payload}});
  return out;
}

// What the hook tells of a table's rows; `entries` are as for op 'u'.
inline std::string Found(std::int32_t table_id, std::string_view entries) {
  std::string id;
  AppendInt32(&id, table_id);
  std::string out;
  AppendRecord(&out, {{kOidInt4, id}, {kOidBytea, entries}});
  return out;
}

}  // namespace psp::chunks
