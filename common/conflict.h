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

}  // namespace psp
