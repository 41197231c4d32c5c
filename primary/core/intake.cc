#include "primary/core/intake.h"

#include "writeset/check.h"

namespace psp::primary {

bool Intake::Parse(SpId sp_id, std::uint64_t incarnation, proto::Certify* message,
                   CertifyRequest* request) const {
  const auto tx_id = TxId::FromBytes(message->tx_id());
  if (!tx_id) return false;
  request->tx_id = *tx_id;
  request->sp_id = sp_id;
  request->incarnation = incarnation;
  if (message->write_set().size() > write_set_bytes_max_) {
    request->refusal = "write-set of " + std::to_string(message->write_set().size()) +
                       " bytes is larger than write_set_bytes_max = " + std::to_string(write_set_bytes_max_);
    return true;
  }
  if (!request->rows.ParseFromString(message->write_set())) {
    request->refusal = "malformed write-set";
    return true;
  }
  request->refusal = ProblemOf(request->rows);
  if (request->refusal.empty()) CheckCatalog(request);
  request->watermark = message->snapshot().watermark();
  request->seen.assign(message->snapshot().seen().begin(), message->snapshot().seen().end());
  request->write_set = std::move(*message->mutable_write_set());
  return true;
}

void Intake::CheckCatalog(CertifyRequest* request) const {
  const std::uint32_t version = request->rows.catalog_version();
  if (version == 0) {
    request->refusal = "malformed write-set: no catalog version";
  } else if (version < tables_.version) {
    request->older_catalog = true;
    request->refusal = "the transaction found version " + std::to_string(version) +
                       " of the catalog, the cluster has version " + std::to_string(tables_.version);
  }
}

bool Intake::KnowsTables(const CertifyRequest& request) const { return UnknownIn(request).empty(); }

void Intake::RefuseUnknown(CertifyRequest* request) const {
  if (const std::string unknown = UnknownIn(*request); !unknown.empty()) {
    request->refusal = "the primary does not know " + unknown;
  } else {
    CheckCatalog(request);  // which may have become newer meanwhile
  }
}

std::string Intake::UnknownIn(const CertifyRequest& request) const {
  const std::uint32_t version = request.rows.catalog_version();
  if (version > tables_.version) return "version " + std::to_string(version) + " of the catalog";
  for (const proto::Row& row : request.rows.rows()) {
    if (!tables_.ids.contains(row.table_id())) return "table_id " + std::to_string(row.table_id());
  }
  return {};
}

}  // namespace psp::primary
