// Which keys a transaction needs, and how it uses each. Pure.
#pragma once

#include <vector>

#include "common/ids.h"
#include "primary/certify/key_locks.h"
#include "primary/certify/types.h"

namespace psp::primary {

struct KeyClaim {
  RowKeyView key;  // of the request
  Access access = 0;
  bool is_reference = false;  // the key that foreign keys refer to, and not the row
};

// Each key once.
std::vector<KeyClaim> ClaimsOf(const CertifyRequest& request);

}  // namespace psp::primary
