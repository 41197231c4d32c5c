// What psp.semi_primaries must tell of who is connected, and who was heard when. Pure; one thread; times are monotonic microseconds.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "primary/connections/connections.h"
#include "primary/publish/housework.h"

namespace psp::primary {

class PresenceNews {
 public:
  static constexpr std::int64_t kEveryUs = 10'000'000;

  // Who has come or gone since the last call, and, now and then, all who are connected. The first call has every semi-primary.
  std::map<SpId, Presence> Take(const Connections& connections, std::int64_t now_us) {
    const bool has_all = now_us >= next_all_us_;
    if (has_all) next_all_us_ = now_us + kEveryUs;
    std::map<SpId, Presence> news;
    for (const auto& [sp_id, registered] : connections.registry()) {
      if (registered.released) continue;
      const auto heard_us = connections.HeardUs(sp_id);
      if (heard_us) heard_us_[sp_id] = *heard_us;
      const bool is_connected = heard_us.has_value();
      const auto told = told_.find(sp_id);
      const bool has_changed = told == told_.end() || told->second != is_connected;
      if (!has_changed && !(has_all && is_connected)) continue;
      told_[sp_id] = is_connected;
      const auto last = heard_us_.find(sp_id);
      news[sp_id] = {is_connected,
                     last == heard_us_.end() ? std::nullopt : std::optional(now_us - last->second)};
    }
    return news;
  }

  // What was taken could not be recorded: the next Take has all of it.
  void PutBack() {
    told_.clear();
    next_all_us_ = 0;
  }

 private:
  std::int64_t next_all_us_ = 0;
  std::map<SpId, bool> told_;              // as was told last
  std::map<SpId, std::int64_t> heard_us_;  // also of those that have gone
};

}  // namespace psp::primary
