// The outcomes of local transactions on Multi-Record Values. psp-mrv adjusts by them, so applications need
// not report anything. Pure; one thread.
//
// A transaction counts for each value that it wrote: as committed; or as aborted, for the one value on which
// it lost against another transaction. A base row whose value is in records says nothing about that value:
// other columns of the row were written. A value that is in its base row is reported only if a transaction
// lost on it, since it cannot have fewer records.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/ids.h"
#include "proto/psp.pb.h"
#include "writeset/catalog.h"

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
  // Outcomes that were not taken yet are dropped.
  void SetCatalog(TableCatalogPtr catalog);
  // A transaction was decided. `lost`: the key that another transaction wrote first; null: it is committed.
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
