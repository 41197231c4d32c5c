#include "semi_primary/commit_hook/assemble.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/ids.h"
#include "common/pg_binary.h"

namespace psp {
namespace {

enum class Kind { kDelete, kGuard, kUpsert };

// What is known of one key so far; views point into the input.
struct Winner {
  RowKeyView key;
  std::size_t place = 0;
  Kind kind = Kind::kDelete;
  std::string_view image;
};

struct Chunk {
  std::uint32_t command = 0;  // cmin: the order of capture
  std::uint32_t table_id = 0;
  char op = 0;
  std::int16_t depth = 0;
  std::string_view payload;
};

// Empty, or what is wrong.
using Problem = std::string;

Problem DecodeChunk(std::string_view* input, std::vector<RecordField>* fields, Chunk* chunk) {
  if (Problem problem = DecodeRecord(input, fields); !problem.empty()) return problem;
  const auto& f = *fields;
  constexpr std::array kTypes = {kOidCid, kOidInt4, kOidChar, kOidInt2, kOidBytea};
  const bool shape = std::ranges::equal(f, kTypes, [](const RecordField& field, std::uint32_t type_oid) {
    return field.type_oid == type_oid && field.value;
  });
  if (!shape) return "a chunk is not (cid, int4, \"char\", int2, bytea)";
  const auto command = ReadInt32(*f[0].value);
  const auto table_id = ReadInt32(*f[1].value);
  const auto depth = ReadInt16(*f[3].value);
  if (!command || !table_id || *table_id <= 0 || !depth || f[2].value->size() != 1)
    return "a chunk's value has a wrong size";
  *chunk = {static_cast<std::uint32_t>(*command), static_cast<std::uint32_t>(*table_id), (*f[2].value)[0],
            *depth, *f[4].value};
  return "";
}

class Assembler {
 public:
  Problem Add(const Chunk& chunk) {
    const std::size_t index = chunks_++;
    if (chunk.op == 's') {
      if (!chunk.payload.empty()) return "a statement's begin has a payload";
      begins_[{chunk.table_id, chunk.depth}] = index;
      return "";
    }
    const auto begin = begins_.find({chunk.table_id, chunk.depth});
    const std::size_t place = begin == begins_.end() ? index : begin->second;
    switch (chunk.op) {
      case 'i':
        return AddImages(chunk, place);
      case 'u':
        return AddEntries(chunk, place, Kind::kUpsert);
      case 'd':
        return AddEntries(chunk, place, Kind::kDelete);
      case 'g':
        return AddEntries(chunk, place, Kind::kGuard);
      default:
        return "a chunk has an unknown operation";
    }
  }

  proto::WriteSet Finish() const {
    proto::WriteSet write_set;
    write_set.mutable_rows()->Reserve(static_cast<int>(winners_.size()));
    for (const Winner& winner : winners_) {
      proto::Row* row = write_set.add_rows();
      row->set_table_id(winner.key.table_id);
      row->set_key(winner.key.key.data(), winner.key.key.size());
      row->set_deleted(winner.kind == Kind::kDelete);
      if (winner.kind == Kind::kUpsert) row->set_image(winner.image.data(), winner.image.size());
    }
    return write_set;
  }

 private:
  Problem AddEntries(const Chunk& chunk, std::size_t place, Kind kind) {
    const std::size_t columns = kind == Kind::kUpsert ? 2 : 1;
    std::string_view rest = chunk.payload;
    while (!rest.empty()) {
      if (Problem problem = DecodeRecord(&rest, &fields_); !problem.empty()) return problem;
      if (fields_.size() != columns) return "an entry has a wrong number of columns";
      for (const RecordField& field : fields_) {
        if (field.type_oid != kOidBytea || !field.value) return "an entry's column is not a bytea";
      }
      const std::string_view image = columns == 2 ? *fields_[1].value : std::string_view();
      AddEntry({{chunk.table_id, *fields_[0].value}, place, kind, image});
    }
    return "";
  }

  // Entries of op 'i': the places of the key's columns, then the image.
  Problem AddImages(const Chunk& chunk, std::size_t place) {
    std::string_view rest = chunk.payload;
    while (!rest.empty()) {
      const std::size_t columns = static_cast<unsigned char>(rest[0]);
      if (columns == 0 || rest.size() < 1 + 2 * columns) return "an entry's key places are truncated";
      const std::string_view places = rest.substr(1, 2 * columns);
      rest.remove_prefix(1 + 2 * columns);
      const std::string_view before = rest;
      if (Problem problem = DecodeRecord(&rest, &fields_); !problem.empty()) return problem;
      const std::string_view image = before.substr(0, before.size() - rest.size());
      std::string& key = keys_.emplace_back();
      AppendInt32(&key, static_cast<std::int32_t>(columns));
      for (std::size_t i = 0; i < columns; ++i) {
        const auto at = ReadInt16(places.substr(2 * i, 2));
        if (!at || *at < 0 || static_cast<std::size_t>(*at) >= fields_.size())
          return "an entry's key place is out of range";
        const RecordField& field = fields_[static_cast<std::size_t>(*at)];
        if (!field.value) return "a key column is null";
        AppendInt32(&key, static_cast<std::int32_t>(field.type_oid));
        AppendInt32(&key, static_cast<std::int32_t>(field.value->size()));
        key.append(*field.value);
      }
      AddEntry({{chunk.table_id, key}, place, Kind::kUpsert, image});
    }
    return "";
  }

  void AddEntry(const Winner& entry) {
    const auto [known, is_new] = by_key_.try_emplace(entry.key, winners_.size());
    if (is_new) {
      winners_.push_back(entry);
      return;
    }
    Winner& winner = winners_[known->second];
    if (entry.place < winner.place) return;
    // One statement deletes a key's row at most once before it writes it anew, never the other way round.
    if (entry.place == winner.place && entry.kind == Kind::kDelete && winner.kind == Kind::kUpsert) return;
    winner = entry;
  }

  std::size_t chunks_ = 0;
  std::map<std::pair<std::uint32_t, std::int16_t>, std::size_t>
      begins_;                                                      // (table, depth) -> index of the last 's'
  std::unordered_map<RowKeyView, std::size_t, RowKeyHash> by_key_;  // -> index in winners_
  std::vector<Winner> winners_;
  std::vector<RecordField> fields_;
  std::deque<std::string> keys_;  // made from images; winners point into them
};

}  // namespace

Result<proto::WriteSet, std::string> AssembleWriteSet(std::string_view input) {
  std::vector<Chunk> chunks;
  std::vector<RecordField> fields;
  while (!input.empty()) {
    if (Problem problem = DecodeChunk(&input, &fields, &chunks.emplace_back()); !problem.empty())
      return problem;
  }
  std::ranges::stable_sort(chunks, {}, &Chunk::command);
  Assembler assembler;
  for (const Chunk& chunk : chunks) {
    if (Problem problem = assembler.Add(chunk); !problem.empty()) return problem;
  }
  return assembler.Finish();
}

}  // namespace psp
