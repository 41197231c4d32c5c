#include "writeset/chunk.h"

#include <algorithm>
#include <array>

namespace psp {

Problem DecodeChunk(std::string_view* input, std::vector<RecordField>* fields, Chunk* chunk) {
  if (Problem problem = DecodeRecord(input, fields); !problem.empty()) return problem;
  const auto& f = *fields;
  constexpr std::array kTypes = {kOidCid, kOidInt4, kOidChar, kOidBytea};
  const bool shape = std::ranges::equal(f, kTypes, [](const RecordField& field, std::uint32_t type_oid) {
    return field.type_oid == type_oid && field.value;
  });
  if (!shape) return "a chunk is not (cid, int4, \"char\", bytea)";
  const auto command = ReadInt32(*f[0].value);
  const auto table_id = ReadInt32(*f[1].value);
  if (!command || !table_id || *table_id < 0 || f[2].value->size() != 1)
    return "a chunk's value has a wrong size";
  *chunk = {static_cast<std::uint32_t>(*command), static_cast<std::uint32_t>(*table_id), (*f[2].value)[0],
            *f[3].value};
  return "";
}

Problem DecodeEntry(std::string_view* rest, std::size_t columns, std::vector<RecordField>* fields) {
  if (Problem problem = DecodeRecord(rest, fields); !problem.empty()) return problem;
  if (fields->size() != columns) return "an entry has a wrong number of columns";
  for (const RecordField& field : *fields) {
    if (field.type_oid != kOidBytea || !field.value) return "an entry's column is not a bytea";
  }
  return "";
}

}  // namespace psp
