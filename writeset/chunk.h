// A chunk of what was captured, and the entries of its payload (writeset/FORMAT.md, "Chunk"). Pure. Views point into
// the input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/pg_binary.h"

namespace psp {

struct Chunk {
  std::uint32_t command = 0;  // cmin: the order of capture
  std::uint32_t table_id = 0;
  char op = 0;
  std::string_view payload;
};

// Empty, or what is wrong.
using Problem = std::string;

// Takes the next chunk. `fields` is only a buffer.
Problem DecodeChunk(std::string_view* input, std::vector<RecordField>* fields, Chunk* chunk);

// Takes the next entry: so many columns, all bytea and none NULL.
Problem DecodeEntry(std::string_view* rest, std::size_t columns, std::vector<RecordField>* fields);

}  // namespace psp
