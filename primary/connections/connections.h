// Which SP is connected over which route, and which is refused.
//
// Pure: time is an argument (monotonic microseconds), answers are values. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/epochs.h"
#include "common/ids.h"
#include "proto/psp.pb.h"

namespace psp::primary {

// A row of psp.semi_primaries.
struct RegisteredSp {
  SpId sp_id = 0;
  std::string name;
  bool released = false;
  GlobalT acked_t = -1;  // -1: has not joined yet
};

class Connections {
 public:
  struct Settings {
    std::string cluster_id;  // 16 bytes
    Epoch epoch = 0;
    std::int64_t heartbeat_timeout_us = 3'000'000;
    EpochStarts epochs{};
    Commits kept{};  // commits that these epochs found above their beginnings
  };

  // What to say to a Hello.
  struct HelloAnswer {
    enum class Kind {
      kWelcome,
      kLook,  // a Hello{look} of an SP that would be welcome
      kRefused,
      kAskRegistry,  // the number is unknown here: read psp.semi_primaries again, then call Hello again
    };
    Kind kind = Kind::kRefused;
    proto::Refused refused;
  };

  explicit Connections(Settings settings) : settings_(std::move(settings)) {}

  void SetRegistry(std::vector<RegisteredSp> registry);
  const std::map<SpId, RegisteredSp>& registry() const { return registry_; }
  const EpochStarts& epochs() const { return settings_.epochs; }
  // That one and later ones; the newest one where it is not known.
  EpochStarts EpochsSince(std::string_view history) const;

  // `truncated_t`: where the log begins. `registry_is_fresh`: the registry was read after this Hello arrived,
  // so a number that is not in it does not exist. With kWelcome, `route` belongs to the SP from now on.
  HelloAnswer Hello(std::string_view route, const proto::Hello& hello, GlobalT truncated_t,
                    bool registry_is_fresh, std::int64_t now_us);

  // Why Hello would refuse it; nothing: it would not. Of a number that is not in the registry it is not sure.
  std::optional<proto::Refused> Objection(const proto::Hello& hello, GlobalT truncated_t,
                                          std::int64_t now_us) const;

  // For every other message: the SP that sent it. Nothing: an unknown route or another epoch. Then the
  // message must change nothing, and the answer is Welcome{say_hello}.
  std::optional<SpId> OnMessageFrom(std::string_view route, Epoch epoch, std::int64_t now_us);

  // The SP leaves; its place is free at once.
  void Goodbye(SpId sp_id);

  // Removes and returns those that were not heard for the timeout.
  std::vector<SpId> Expire(std::int64_t now_us);

  // Removes those that were released while connected, and returns them.
  std::vector<SpId> RemoveReleased();

  // Where to send to it, and which daemon it is; nothing when it is not connected.
  const std::string* RouteOf(SpId sp_id) const;
  std::uint64_t IncarnationOf(SpId sp_id) const;
  // When it was heard last; nothing when it is not connected.
  std::optional<std::int64_t> HeardUs(SpId sp_id) const;

 private:
  struct Peer {
    std::string route;
    std::uint64_t incarnation = 0;
    std::int64_t heard_us = 0;
  };

  const Settings settings_;
  std::map<SpId, RegisteredSp> registry_;
  std::map<SpId, Peer> peers_;
  std::map<std::string, SpId, std::less<>> by_route_;
};

}  // namespace psp::primary
