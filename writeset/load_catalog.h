// Reads the catalog of captured tables, and of the MRVs among them, from the semi-primary's database.
#pragma once

#include "common/pg_session.h"
#include "semi_primary/apply/catalog.h"

namespace psp::sp {

// The session's search_path must be pg_catalog, so that type names come out qualified.
PgResult<TableCatalogPtr> LoadCatalog(PgSession& session);

}  // namespace psp::sp
