// A lost conflict: the key that a transaction lost on, and who had written it.
#pragma once

#include "common/ids.h"

namespace psp {

struct Conflict {
  RowKey key;
  GlobalT winner_t = 0;
  SpId winner_sp_id = 0;  // 0: not known

  friend bool operator==(const Conflict&, const Conflict&) = default;
};

}  // namespace psp
