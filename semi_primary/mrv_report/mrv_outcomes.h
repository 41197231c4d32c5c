// What becomes of local transactions on Multi-Record Values: psp-mrv adjusts by it, so that applications need
// not report anything. Pure; one thread.
//
// A transaction counts for each value that it wrote: as committed, or, for the one value on which it lost
// against another transaction, as aborted. A row whose value stands in records says nothing about that value:
// other columns of it were written. A value that stands in its row is told only if somebody lost on it, since
// it has as few records as there can be.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/ids.h"
#include "proto/psp.pb.h"
#include "semi_primary/apply/catalog.h"

namespace psp::sp {

struct MrvOutcome {
  std::int32_t column_id = 0;
  std::string key;  // record_send of the value's normalised key
  std::int32_t commits = 0;
  std::int32_t aborts = 0;
};

struct MrvReport {
  TableCatalogPtr catalog;  // what the outcomes' columns and keys mean; null only without outcomes
  std::vector<MrvOutcome> outcomes;
};

class MrvOutcomes {
 public:
  // Outcomes that were not taken yet are forgotten.
  void SetCatalog(TableCatalogPtr catalog);
  // A transaction was decided; `lost`: the key that another one was quicker to write, null: it is committed.
  void Add(const proto::WriteSet& write_set, const RowKey* lost);
  // By column and key.
  MrvReport TakeReport();

 private:
  using Value = std::pair<std::int32_t, std::string>;  // column_id, key
  struct Counts {
    std::int32_t commits = 0;
    std::int32_t aborts = 0;
    bool is_split = false;
  };

  // `told`: the values for which the transaction counts already.
  void AddRow(const std::vector<MrvPart>& parts, const proto::Row& row, bool is_lost, std::set<Value>* told);

  TableCatalogPtr catalog_;
  std::map<Value, Counts> counts_;
};

}  // namespace psp::sp
