// The main thread's requests to the housekeeper, and its reports. Values.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/ids.h"
#include "writeset/catalog.h"

namespace psp::primary {

struct RegistryRow {
  SpId sp_id = 0;
  std::string name;
  bool released = false;
  GlobalT acked_t = -1;
  std::optional<GlobalT> join_t;  // as of when it copies the table; nothing: it does not
};

// Of a semi-primary.
struct Presence {
  bool is_connected = false;
  std::optional<std::int64_t> heard_us_ago;  // nothing: not since this daemon's start

  friend bool operator==(const Presence&, const Presence&) = default;
};

struct HouseWork {
  std::uint64_t number = 0;  // comes back in the report
  // To write down in this order, before anything is removed:
  std::map<SpId, GlobalT> joins;
  std::map<SpId, GlobalT> acks;
  std::map<SpId, Presence> presence{};
  std::optional<std::string> losses{};         // JSON; nothing: nobody has lost
  std::map<SpId, std::string> loss_reports{};  // JSON: proto::LossReport
  GlobalT settled_t = 0;                       // all numbers up to here are decided
  bool truncate_log = false;                   // what all have acknowledged; and the batches up to settled_t
  bool sweep = false;                          // old decisions, deleted rows and guards
};

struct LogSize {
  std::int64_t bytes = 0;
  std::int64_t oldest_ms = 0;  // for how long its oldest entry has been there
};

struct HouseReport {
  std::uint64_t number = 0;
  std::vector<RegistryRow> registry;  // read after the work was given
  KnownTables tables;
  GlobalT truncated_t = 0;
  // A piece of it was done: there is more.
  bool more_to_truncate = false;
  bool more_to_sweep = false;
  std::optional<LogSize> log{};  // if it was to be truncated
};

}  // namespace psp::primary
