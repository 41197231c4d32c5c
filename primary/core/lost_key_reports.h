// On which keys the semi-primaries lose transactions, as each has told last (proto::LossReport). For people: nothing is decided by it.
// Pure; one thread.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "common/ids.h"
#include "proto/psp.pb.h"

namespace psp::primary {

class LostKeyReports {
 public:
  static constexpr std::size_t kBytesMax = std::size_t{1} << 18;
  using Json = std::map<SpId, std::string>;

  // Takes the place of its last one. What is wrong with it, and then it is dropped; empty: nothing.
  std::string Add(SpId sp_id, const proto::LossReport& report);
  // Those that have come since the last call.
  Json TakeNews() { return std::exchange(news_, {}); }
  // They could not be stored. Newer ones stay.
  void PutBack(Json reports) { news_.merge(reports); }

 private:
  Json news_;
};

}  // namespace psp::primary
