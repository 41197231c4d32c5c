// Reads the catalog of captured tables from a daemon's database.
#pragma once

#include "common/pg_session.h"
#include "writeset/catalog.h"

namespace psp {

// A semi-primary's, with the Multi-Record Values among its tables. The session's search_path must be
// pg_catalog, so that type names come out qualified.
PgResult<TableCatalogPtr> LoadCatalog(PgSession& session);
// As a transaction that has changed it finds it.
TableCatalogPtr LoadCatalog(pqxx::transaction_base& tx);

// The primary's.
KnownTables LoadKnownTables(pqxx::transaction_base& tx);

}  // namespace psp
