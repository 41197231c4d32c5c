// The rows of a schema change as segments: statements, or rows of tables, that follow one another
// (writeset/FORMAT.md). One is applied after the other, all in one PostgreSQL transaction. Pure.
#pragma once

#include <cstddef>
#include <limits>
#include <vector>

#include "proto/psp.pb.h"
#include "writeset/catalog.h"

namespace psp::sp {

// Rows [begin, end) of a write-set; by default all.
struct Segment {
  int begin = 0;
  int end = std::numeric_limits<int>::max();
  bool has_statements = false;
};

class Segments {
 public:
  // What is applied at once.
  Segments() : segments_{Segment{}} {}
  explicit Segments(const proto::WriteSet& schema_change);

  const Segment& now() const { return segments_[now_]; }
  // The transaction is open: it has the segments before this one.
  bool is_open() const { return now_ > 0; }
  bool is_last() const { return now_ + 1 == segments_.size(); }
  // This one is applied, and it is not the last one. True: the catalog may be another one now.
  bool Next() { return segments_[now_++].has_statements; }

  // As the open transaction has made it; null: as it is committed. Nobody else may know of it before the COMMIT.
  void SetCatalog(TableCatalogPtr catalog) { catalog_ = std::move(catalog); }
  const TableCatalogPtr& catalog() const { return catalog_; }

 private:
  std::vector<Segment> segments_;  // at least one
  std::size_t now_ = 0;
  TableCatalogPtr catalog_;
};

}  // namespace psp::sp
