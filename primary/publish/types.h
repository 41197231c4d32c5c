// What is published: a committed transaction, encoded once for all streams.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "common/ids.h"

namespace psp::primary {

struct Published {
  GlobalT global_t = 0;
  SpId sp_id = 0;
  std::uint64_t incarnation = 0;  // of the daemon that sent it; 0: from the log, not known any more
  // The transaction as it stands inside a serialised Replicate, with its write-set and as a marker.
  std::string full;
  std::string marker;
};

using PublishedPtr = std::shared_ptr<const Published>;

// The write-set's bytes go into `full` as they are.
PublishedPtr Encode(GlobalT global_t, const TxId& tx_id, SpId sp_id, std::uint64_t incarnation,
                    std::string_view write_set);

}  // namespace psp::primary
