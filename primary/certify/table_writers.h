// Which semi-primary has written which table last. A schema change must not commit when its semi-primary
// lacks rows of a table that it changes: its statements have not seen them. Pure; one thread.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "common/ids.h"
#include "primary/certify/types.h"

namespace psp::primary {

class TableWriters {
 public:
  // Who wrote what up to `start_t` is not known any more: it counts as written to every table, by others.
  explicit TableWriters(GlobalT start_t) : start_t_(start_t) {}

  // A transaction has committed.
  void Note(const CertifyRequest& request, GlobalT global_t);

  // Refuses a schema change whose snapshot lacks rows of another semi-primary in a table that it changes. Its
  // own semi-primary's rows it has: its statements lock the tables.
  Refusal Missing(const CertifyRequest& schema_change) const;

 private:
  const GlobalT start_t_;
  std::unordered_map<std::uint32_t, std::unordered_map<SpId, GlobalT>> newest_;  // by table
};

}  // namespace psp::primary
