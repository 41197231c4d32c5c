// Which semi-primary has written which table, and when. A schema change must not commit when its semi-primary
// lacks rows of a table that it changes: its statements have not seen them; nor must one that has read a whole table.
// Pure; one thread.
//
// That holds for the semi-primary's own transactions, too. A session may have gone before it heard that it has
// committed: its locks are gone, and its rows come back by the stream.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "common/conflict.h"
#include "common/ids.h"
#include "primary/certify/newest_commits.h"
#include "primary/certify/types.h"

namespace psp::primary {

class TableWriters {
 public:
  // Who wrote what up to `start_t` is not known any more: it counts as written to every table.
  explicit TableWriters(GlobalT start_t) : start_t_(start_t) {}

  // A transaction has committed.
  void Note(const CertifyRequest& request, GlobalT global_t);

  // Refuses a schema change whose snapshot lacks rows of a table that it changes.
  Refusal Missing(const CertifyRequest& schema_change) const;
  // The table that the transaction has read, and of which its snapshot lacks rows. The key is empty.
  std::optional<Conflict> LostRead(const CertifyRequest& request) const;

 private:
  // The newest one that has written the table and is not in the snapshot.
  std::optional<Commit> Lacking(std::uint32_t table_id, const SnapshotView& snapshot) const;

  const GlobalT start_t_;
  std::unordered_map<std::uint32_t, NewestCommits> written_;  // by table
};

}  // namespace psp::primary
