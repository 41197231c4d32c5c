// For tests of what keeps requests waiting: parked_requests.h, table_holds.h, reservations.h.
#pragma once

#include <vector>

#include "primary/certify/types.h"

namespace psp::primary {

// Whose requests have been released, in their order; they are taken.
template <class Holder>
std::vector<SpId> TakeReleasedSpIds(Holder* holder) {
  std::vector<SpId> sp_ids;
  for (const CertifyRequest& request : holder->TakeReleased()) sp_ids.push_back(request.sp_id);
  return sp_ids;
}

}  // namespace psp::primary
