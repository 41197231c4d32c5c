// The round trips of the semi-primaries, as they have measured them themselves.
// Pure; one thread.
#pragma once

#include <cstdint>
#include <map>

#include "common/ids.h"

namespace psp::primary {

class RoundTrips {
 public:
  void Set(SpId sp_id, std::int64_t rtt_us) { rtt_us_[sp_id] = rtt_us; }
  // The semi-primary has gone.
  void Forget(SpId sp_id) { rtt_us_.erase(sp_id); }
  // 0: not known.
  std::int64_t Of(SpId sp_id) const {
    const auto found = rtt_us_.find(sp_id);
    return found == rtt_us_.end() ? 0 : found->second;
  }

 private:
  std::map<SpId, std::int64_t> rtt_us_;
};

}  // namespace psp::primary
