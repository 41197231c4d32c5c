#include "common/commit_choice.h"

namespace psp {

// By a hash (FNV-1a) that mixes all bytes: ids have counters and times in them.
bool CommitChoice::Follows(const TxId& tx_id) const {
  if (one_in <= 1) return one_in == 1;
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char byte : tx_id.View()) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3U;
  hash ^= hash >> 32U;
  return hash % static_cast<std::uint64_t>(one_in) == 0;
}

}  // namespace psp
