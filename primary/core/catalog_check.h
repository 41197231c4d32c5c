// Whether what a transaction writes and uses fits the catalog. A semi-primary may be compromised, or a role may have found a way to tell
// its capture what to write: what the other servers could not apply, or what would take the row of another table, is refused here. Pure.
#pragma once

#include <string>

#include "primary/certify/types.h"
#include "writeset/catalog.h"

namespace psp::primary {

// What is wrong; empty: nothing. `tables` has all numbers in it
// (Intake::KnowsTables).
//   A row has the number of a table, a guard that of one of the guards of a table that is written, too.
//   A row that is read has the number of a table.
//   A schema change takes no number that belongs to another table.
//   A schema change gives each table that it changes a form, unless it drops it.
//   Keys and images have the form of the table, as the request leaves it: their columns, values that PostgreSQL
//   takes (writeset/values.h), no NULL where the column has none. Keys are normalised, and those of their images.
std::string ProblemByCatalog(const CertifyRequest& request, const KnownTables& tables);

}  // namespace psp::primary
