// The keys that a transaction uses without writing them, from what its triggers and functions captured
// (writeset/FORMAT.md, "Key uses"). Pure.
#pragma once

#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/ids.h"
#include "proto/psp.pb.h"
#include "writeset/chunk.h"

namespace psp {

// The bytes of the chunks must outlive it.
class KeyUsesBuilder {
 public:
  // Whether a chunk of this operation tells of a use.
  static bool Takes(char op);

  // Takes such chunks, in the order of capture.
  Problem Add(const Chunk& chunk);

  // Each (kind, table_id, key) once, in the order of its first capture.
  proto::KeyUses Finish() { return std::move(uses_); }

 private:
  Problem AddSnapshot(std::string_view text);
  void AddUse(proto::UseKind kind, const RowKeyView& key);

  proto::KeyUses uses_;
  std::unordered_map<RowKeyView, unsigned, RowKeyHash> kinds_;  // a bit for each kind of use
  std::vector<RecordField> fields_;
};

// Removes what the rows make needless: that a row was read which the transaction also writes, and that a key was
// ended which a row has again as the transaction leaves it. No row may be in doubt any more.
void DropNeedlessUses(const proto::WriteSet& write_set, proto::KeyUses* uses);

}  // namespace psp
