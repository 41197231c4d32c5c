#include "writeset/assemble.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/hex.h"
#include "common/ids.h"
#include "common/pg_binary.h"
#include "embedded/constants.h"
#include "writeset/chunk.h"
#include "writeset/key_text.h"
#include "writeset/key_uses.h"
#include "writeset/table_form.h"

namespace psp {
namespace {

enum class Kind { kDelete, kGone, kGuard, kUpsert, kDoubt };  // kGone: deleted by a statement

// What is known of one key; views point into the input.
struct Captured {
  RowKeyView key;
  Kind kind = Kind::kDelete;
  std::string_view image;
};

// What op 'c' says of a table.
Problem DecodeTableChange(const Chunk& chunk, proto::TableChange* change) {
  std::string_view rest = chunk.payload;
  const auto guards = rest.size() < 5 ? std::nullopt : ReadInt32(rest.substr(1, 4));
  const bool is_dropped = rest == "\1";
  const bool shape = is_dropped || (guards && *guards >= 0 && (rest[0] == 0 || rest[0] == 2) &&
                                    static_cast<std::size_t>(*guards) <= (rest.size() - 5) / 4);
  if (!shape) return "a changed table is neither (0, guards, form) nor (1) nor (2, guards, form)";
  change->set_table_id(chunk.table_id);
  change->set_dropped(is_dropped);
  change->set_emptied(rest[0] == 2);
  if (is_dropped) return "";
  rest.remove_prefix(5);
  for (std::int32_t left = *guards; left > 0; --left, rest.remove_prefix(4)) {
    const auto guard_id = ReadInt32(rest.substr(0, 4));
    if (!guard_id || *guard_id <= 0) return "a changed table has an impossible guard";
    change->add_guard_ids(static_cast<std::uint32_t>(*guard_id));
  }
  if (!DecodeTableForm(rest)) return "a changed table has a malformed form";
  change->set_form(std::string(rest));
  return "";
}

// Calls take(table_id, key, image) for each row that was looked up, until that says what is wrong.
template <class Take>
Problem ForEachFound(std::string_view found, Take take) {
  std::vector<RecordField> fields;
  while (!found.empty()) {
    if (Problem problem = DecodeRecord(&found, &fields); !problem.empty()) return problem;
    const auto table_id =
        fields.size() == 2 && fields[0].value && fields[1].value ? ReadInt32(*fields[0].value) : std::nullopt;
    if (!table_id) return "a found table is not (int4, bytea)";
    std::string_view entries = *fields[1].value;
    while (!entries.empty()) {
      if (Problem problem = DecodeEntry(&entries, 2, &fields); !problem.empty()) return problem;
      const RowKeyView key{static_cast<std::uint32_t>(*table_id), *fields[0].value};
      if (Problem problem = take(key, *fields[1].value); !problem.empty()) return problem;
    }
  }
  return "";
}

// Rows and statements in the order of capture. What stands between two changes from one to the other is a segment.
class Assembler {
 public:
  Problem Add(const Chunk& chunk) {
    switch (chunk.op) {
      case 'i':
        return AddImages(chunk);
      case 'u':
        return AddEntries(chunk, Kind::kUpsert);
      case 'd':
        return AddEntries(chunk, Kind::kDelete);
      case 'e':
        return AddEntries(chunk, Kind::kGone);
      case 'g':
        return AddEntries(chunk, Kind::kGuard);
      case 'l':
        return SettleSegment(chunk.payload);
      case 'c':
        return AddTableChange(chunk);
      default:
        return KeyUsesBuilder::Takes(chunk.op) ? uses_.Add(chunk) : "a chunk has an unknown operation";
    }
  }

  AssembledWriteSet Finish() {
    const std::size_t repeats_begin = rows_.size();
    if (has_statements_) RepeatEarlierKeys();
    AssembledWriteSet result;
    result.repeats_begin = static_cast<int>(repeats_begin);
    result.uses = uses_.Finish();
    *result.write_set.mutable_table_changes() = {table_changes_.begin(), table_changes_.end()};
    result.write_set.mutable_rows()->Reserve(static_cast<int>(rows_.size()));
    for (const Captured& captured : rows_) {
      proto::Row* row = result.write_set.add_rows();
      row->set_table_id(captured.key.table_id);
      if (captured.key.table_id == kSchemaHistoryId) result.write_set.set_kind(proto::ENTRY_SCHEMA_CHANGE);
      row->set_key(captured.key.key.data(), captured.key.key.size());
      row->set_deleted(captured.kind == Kind::kDelete || captured.kind == Kind::kGone);
      if (captured.kind == Kind::kUpsert) row->set_image(captured.image.data(), captured.image.size());
      if (captured.kind == Kind::kGuard) row->set_access(proto::ACCESS_GUARD);
      if (captured.kind == Kind::kDoubt) result.doubts.push_back(result.write_set.rows_size() - 1);
      const bool is_repeat = result.write_set.rows_size() > result.repeats_begin;
      if (captured.kind == Kind::kGone || (row->deleted() && is_repeat)) row->set_gone_before(true);
    }
    if (result.doubts.empty()) DropNeedlessUses(result.write_set, &result.uses);
    return result;
  }

 private:
  Problem AddEntries(const Chunk& chunk, Kind kind) {
    const bool has_image = kind == Kind::kUpsert;
    std::string_view rest = chunk.payload;
    while (!rest.empty()) {
      if (Problem problem = DecodeEntry(&rest, has_image ? 2 : 1, &fields_); !problem.empty()) return problem;
      const Captured entry{
          {chunk.table_id, *fields_[0].value}, kind, has_image ? *fields_[1].value : std::string_view()};
      if (Problem problem = AddEntry(entry); !problem.empty()) return problem;
    }
    return "";
  }

  // Entries of op 'i': the places of the key's columns, then the image.
  Problem AddImages(const Chunk& chunk) {
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
      if (Problem problem = AddEntry({{chunk.table_id, key}, Kind::kUpsert, image}); !problem.empty())
        return problem;
    }
    return "";
  }

  // The last one of a table counts. What an earlier one has emptied stays so.
  Problem AddTableChange(const Chunk& chunk) {
    proto::TableChange change;
    if (Problem problem = DecodeTableChange(chunk, &change); !problem.empty()) return problem;
    const auto known = std::ranges::find(table_changes_, chunk.table_id, &proto::TableChange::table_id);
    if (known != table_changes_.end() && known->emptied() && !change.dropped()) change.set_emptied(true);
    (known == table_changes_.end() ? table_changes_.emplace_back() : *known) = std::move(change);
    return "";
  }

  Problem AddEntry(const Captured& entry) {
    const bool is_statement = entry.key.table_id == kSchemaHistoryId;
    if (is_statement && !in_statements_ && doubts_ > 0) return "a segment's doubts were not looked up";
    if (is_statement != in_statements_) BeginSegment(is_statement);
    const auto [known, is_new] = by_key_.try_emplace(entry.key, rows_.size());
    if (is_new) {
      rows_.push_back(entry);
    } else if (entry.kind == Kind::kGone) {  // no doubt: PostgreSQL takes no rows away while captures wait
      if (rows_[known->second].kind == Kind::kDoubt) --doubts_;
      rows_[known->second].kind = Kind::kGone;
    } else if ((rows_[known->second].kind == Kind::kGuard) != (entry.kind == Kind::kGuard)) {
      return "a number is that of a table and of a guard";
    } else if (entry.kind != Kind::kGuard) {
      if (rows_[known->second].kind != Kind::kDoubt) ++doubts_;
      rows_[known->second].kind = Kind::kDoubt;
    }
    return "";
  }

  void BeginSegment(bool of_statements) {
    in_statements_ = of_statements;
    has_statements_ = true;
    segment_begin_ = rows_.size();
    by_key_.clear();
    doubts_ = 0;
  }

  // Op 'l': what the keys in doubt are at the end of the segment. One that was not found is deleted.
  Problem SettleSegment(std::string_view found) {
    if (in_statements_) return "statements are not looked up";
    for (std::size_t i = segment_begin_; i < rows_.size(); ++i) {
      if (rows_[i].kind == Kind::kDoubt) rows_[i].kind = Kind::kDelete;
    }
    doubts_ = 0;
    return ForEachFound(found, [this](const RowKeyView& key, std::string_view image) -> Problem {
      const auto known = by_key_.find(key);
      if (known == by_key_.end() || rows_[known->second].kind != Kind::kDelete)
        return "a found row was not in doubt";
      rows_[known->second].kind = Kind::kUpsert;
      rows_[known->second].image = image;
      return "";
    });
  }

  // The last segment has the rows as the transaction leaves them, in the form that their tables have by then.
  void RepeatEarlierKeys() {
    if (in_statements_) BeginSegment(false);
    const std::vector<Captured> earlier(rows_.begin(),
                                        rows_.begin() + static_cast<std::ptrdiff_t>(segment_begin_));
    std::unordered_map<RowKeyView, Kind, RowKeyHash> latest;
    for (const Captured& one : earlier) latest[one.key] = one.kind;
    for (const Captured& one : earlier) {
      const bool is_dropped = std::ranges::any_of(table_changes_, [&](const proto::TableChange& change) {
        return change.dropped() && change.table_id() == one.key.table_id;
      });
      if (one.key.table_id == kSchemaHistoryId || is_dropped) continue;
      if (!by_key_.try_emplace(one.key, rows_.size()).second) continue;
      const Kind kind = latest.at(one.key);
      rows_.push_back({one.key, kind == Kind::kUpsert ? Kind::kDoubt : kind, {}});
    }
  }

  std::unordered_map<RowKeyView, std::size_t, RowKeyHash> by_key_;  // of the segment -> index in rows_
  bool has_statements_ = false;
  bool in_statements_ = false;     // what the segment is of
  std::size_t segment_begin_ = 0;  // index in rows_
  std::size_t doubts_ = 0;         // in the segment
  std::vector<Captured> rows_;
  std::vector<RecordField> fields_;
  std::deque<std::string> keys_;  // made from images; rows_ points into them
  std::vector<proto::TableChange> table_changes_;
  KeyUsesBuilder uses_;
};

}  // namespace

Result<AssembledWriteSet, std::string> AssembleWriteSet(std::string_view input) {
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

std::string DescribeDoubts(const AssembledWriteSet& assembled) {
  std::string lines;
  for (const int doubt : assembled.doubts) {
    const proto::Row& row = assembled.write_set.rows(doubt);
    if (!lines.empty()) lines += "\n";
    lines += std::to_string(row.table_id()) + " " + EncodeHex(row.key());
    for (const auto& text : KeyTexts(row.key())) lines += text ? " t" + EncodeHex(*text) : " -";
  }
  return lines;
}

Result<Done, std::string> SettleDoubts(std::string_view found, AssembledWriteSet* assembled) {
  std::unordered_map<RowKeyView, proto::Row*, RowKeyHash> doubts;
  for (const int doubt : assembled->doubts) {
    proto::Row* row = assembled->write_set.mutable_rows(doubt);
    doubts.emplace(RowKeyView{row->table_id(), row->key()}, row);
    row->set_deleted(true);
  }
  const Problem problem = ForEachFound(found, [&](const RowKeyView& key, std::string_view image) -> Problem {
    const auto doubt = doubts.find(key);
    if (doubt == doubts.end()) return "a found row was not asked for";
    doubt->second->set_deleted(false);
    doubt->second->set_image(image.data(), image.size());
    return "";
  });
  if (!problem.empty()) return problem;
  // It went in an earlier segment, or by a statement that gave its row another key. So it goes there at the other
  // servers too, and the key may not even have the form that its table's keys have by now.
  for (const int doubt : assembled->doubts) {
    proto::Row* row = assembled->write_set.mutable_rows(doubt);
    if (doubt >= assembled->repeats_begin && row->deleted()) row->set_gone_before(true);
  }
  assembled->doubts.clear();
  DropNeedlessUses(assembled->write_set, &assembled->uses);
  return Done{};
}

}  // namespace psp
