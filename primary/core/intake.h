// Makes a request for the scheduler of a Certify message. Everything that comes from outside is checked here,
// also whether the transaction fits the catalog: docs/decisions/31. Pure; one thread.
#pragma once

#include <cstddef>
#include <string>

#include "primary/certify/types.h"
#include "writeset/catalog.h"

namespace psp::primary {

class Intake {
 public:
  Intake(std::size_t write_set_bytes_max, KnownTables tables)
      : write_set_bytes_max_(write_set_bytes_max), tables_(std::move(tables)) {}

  // False when the message has no valid tx id: then no answer is possible. Any other mistake becomes
  // `request->refusal`, so that it is recorded and answered like any decision.
  bool Parse(SpId sp_id, std::uint64_t incarnation, proto::Certify* message, CertifyRequest* request) const;

  // Whether the catalog here has all tables and guards of the request, and is not older than the request's.
  bool KnowsTables(const CertifyRequest& request) const { return UnknownIn(request).empty(); }

  // Refuses a request whose tables are not known here, or which does not fit them (catalog_check.h). To be called when all are known, or
  // the catalog has been read again.
  void Judge(CertifyRequest* request) const;

  // Whether the request, which has been let in, fits the catalog still.
  Refusal OlderCatalog(const CertifyRequest& request) const;

  // As it was read from the database, unless more is known here already.
  void SetTables(KnownTables tables);
  // A schema change has committed.
  void Change(const proto::WriteSet& schema_change);

 private:
  // What the catalog here does not have; empty: it has all.
  std::string UnknownIn(const CertifyRequest& request) const;

  const std::size_t write_set_bytes_max_;
  KnownTables tables_;
};

}  // namespace psp::primary
