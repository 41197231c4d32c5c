#include "primary/certify/key_claims.h"

#include <unordered_map>

namespace psp::primary {
namespace {

Access ReferenceAccess(proto::UseKind kind) {
  switch (kind) {
    case proto::USE_SHARED:
      return kShares;
    case proto::USE_ENDED:
      return kEnds;
    case proto::USE_REFERRERS_READ:
      return kReadsReferrers;
    default:
      return 0;
  }
}

}  // namespace

std::vector<KeyClaim> ClaimsOf(const CertifyRequest& request) {
  std::vector<KeyClaim> claims;
  claims.reserve(static_cast<std::size_t>(request.rows.rows_size() + request.uses.keys_size()));
  for (const proto::Row& row : request.rows.rows()) {
    claims.push_back({{row.table_id(), row.key()}, kWrites, false});
  }
  std::unordered_map<RowKeyView, Access, RowKeyHash> references;
  for (const proto::KeyUse& use : request.uses.keys()) {
    const RowKeyView key(use.table_id(), use.key());
    if (use.kind() == proto::USE_READ) claims.push_back({key, kReads, false});
    if (const Access access = ReferenceAccess(use.kind()); access != 0) references[key] |= access;
  }
  for (const auto& [key, access] : references) claims.push_back({key, access, true});
  return claims;
}

}  // namespace psp::primary
