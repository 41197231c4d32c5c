// Of which transactions the log tells: docs/decisions/61. Pure.
#pragma once

#include <cstdint>

#include "common/ids.h"

namespace psp {

struct CommitChoice {
  std::int64_t over_ms = -1;  // log_commits_over_ms; -1: none
  std::int64_t one_in = 0;    // log_commits_one_in; 0: none

  bool is_off() const { return over_ms < 0 && one_in == 0; }
  // Each step of it is told when it happens. All daemons with the same one_in choose the same transactions.
  bool Follows(const TxId& tx_id) const;
  // Its end is told, by a daemon that had it for so long.
  bool TellsEnd(const TxId& tx_id, std::int64_t took_us) const {
    return (over_ms >= 0 && took_us >= over_ms * 1000) || Follows(tx_id);
  }
};

}  // namespace psp
