// A lost conflict: the key that a transaction lost on, and who had it before.
#pragma once

#include <optional>

#include "common/ids.h"
#include "proto/psp.pb.h"

namespace psp {

struct Conflict {
  RowKey key;
  GlobalT winner_t = 0;
  SpId winner_sp_id = 0;                // 0: not known
  std::optional<proto::UseKind> use{};  // how the loser used the key; none: it has written it

  friend bool operator==(const Conflict&, const Conflict&) = default;
};

inline proto::Conflict ToMessage(const Conflict& lost) {
  proto::Conflict conflict;
  conflict.set_table_id(lost.key.table_id);
  conflict.set_key(lost.key.key);
  conflict.set_winner_t(lost.winner_t);
  conflict.set_winner_sp_id(lost.winner_sp_id);
  if (lost.use) conflict.set_use(*lost.use);
  return conflict;
}

inline Conflict ToConflict(const proto::Conflict& conflict) {
  Conflict lost{{conflict.table_id(), conflict.key()}, conflict.winner_t(), conflict.winner_sp_id()};
  if (conflict.has_use()) lost.use = conflict.use();
  return lost;
}

}  // namespace psp
