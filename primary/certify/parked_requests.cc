#include "primary/certify/parked_requests.h"

namespace psp::primary {

void ParkedRequests::Add(CertifyRequest request, std::int64_t now_us) {
  if (Has(request.tx_id)) return;
  bytes_ += request.bytes();
  const TxId tx_id = request.tx_id;
  by_id_[tx_id] = parked_.insert(parked_.end(), {std::move(request), now_us});
}

std::optional<CertifyRequest> ParkedRequests::Take(const TxId& tx_id) {
  const auto found = by_id_.find(tx_id);
  if (found == by_id_.end()) return std::nullopt;
  return Remove(found->second);
}

CertifyRequest ParkedRequests::Remove(Requests::iterator parked) {
  CertifyRequest request = std::move(parked->request);
  parked_.erase(parked);
  by_id_.erase(request.tx_id);
  bytes_ -= request.bytes();
  return request;
}

}  // namespace psp::primary
