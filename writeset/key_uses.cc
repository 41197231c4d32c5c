#include "writeset/key_uses.h"

#include <algorithm>
#include <optional>

#include "writeset/snapshot_text.h"

namespace psp {
namespace {

constexpr char kEndedSnapshot = 'w';

std::optional<proto::UseKind> KindOf(char op) {
  switch (op) {
    case 's':
      return proto::USE_SHARED;
    case 'k':
      return proto::USE_ENDED;
    case 'r':
      return proto::USE_READ;
    case 'f':
      return proto::USE_REFERRERS_READ;
    case 't':
      return proto::USE_TABLE_READ;
    default:
      return std::nullopt;
  }
}

RowKeyView KeyOf(const proto::KeyUse& use) { return {use.table_id(), use.key()}; }

// What the rows tell of a key that is read or ended. The last row of a key counts: a schema change may have several.
struct OfRows {
  bool is_written = false;
  bool is_there = false;  // as the transaction leaves it
};

}  // namespace

bool KeyUsesBuilder::Takes(char op) { return op == kEndedSnapshot || KindOf(op); }

Problem KeyUsesBuilder::Add(const Chunk& chunk) {
  if (chunk.op == kEndedSnapshot) return AddSnapshot(chunk.payload);
  const proto::UseKind kind = *KindOf(chunk.op);
  if (kind == proto::USE_TABLE_READ) {
    if (!chunk.payload.empty()) return "a table that was read has a key";
    AddUse(kind, {chunk.table_id, {}});
    return "";
  }
  std::string_view rest = chunk.payload;
  while (!rest.empty()) {
    if (Problem problem = DecodeEntry(&rest, 1, &fields_); !problem.empty()) return problem;
    AddUse(kind, {chunk.table_id, *fields_[0].value});
  }
  return "";
}

// The first one counts: all that was ended later was ended by a statement that has seen as much, or more.
Problem KeyUsesBuilder::AddSnapshot(std::string_view text) {
  auto snapshot = ParseSnapshot(text);
  if (!snapshot) return "what could be seen when a key was ended is no snapshot";
  if (!uses_.has_ended_snapshot()) *uses_.mutable_ended_snapshot() = std::move(*snapshot);
  return "";
}

void KeyUsesBuilder::AddUse(proto::UseKind kind, const RowKeyView& key) {
  unsigned& kinds = kinds_[key];
  const unsigned bit = 1U << kind;
  if ((kinds & bit) != 0) return;
  kinds |= bit;
  proto::KeyUse* use = uses_.add_keys();
  use->set_kind(kind);
  use->set_table_id(key.table_id);
  use->set_key(key.key.data(), key.key.size());
}

void DropNeedlessUses(const proto::WriteSet& write_set, proto::KeyUses* uses) {
  std::unordered_map<RowKeyView, OfRows, RowKeyHash> keys;
  for (const proto::KeyUse& use : uses->keys()) {
    if (use.kind() == proto::USE_READ || use.kind() == proto::USE_ENDED) keys[KeyOf(use)] = {};
  }
  if (keys.empty()) return uses->clear_ended_snapshot();
  for (const proto::Row& row : write_set.rows()) {
    const auto used = keys.find({row.table_id(), row.key()});
    if (used != keys.end() && row.access() == proto::ACCESS_WRITE) used->second = {true, !row.deleted()};
  }
  const auto is_needless = [&](const proto::KeyUse& use) {
    if (use.kind() == proto::USE_READ) return keys.at(KeyOf(use)).is_written;
    return use.kind() == proto::USE_ENDED && keys.at(KeyOf(use)).is_there;
  };
  const auto is_ended = [](const proto::KeyUse& use) { return use.kind() == proto::USE_ENDED; };
  proto::KeyUses needed;
  for (const proto::KeyUse& use : uses->keys()) {
    if (!is_needless(use)) *needed.add_keys() = use;
  }
  if (uses->has_ended_snapshot() && std::ranges::any_of(needed.keys(), is_ended)) {
    *needed.mutable_ended_snapshot() = uses->ended_snapshot();  // it is told for ended keys alone
  }
  *uses = std::move(needed);
}

}  // namespace psp
