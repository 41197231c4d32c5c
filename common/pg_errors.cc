#include "common/pg_errors.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>

namespace psp {
namespace {

// Lost connections, serialization failures and deadlocks, too few resources, an operator, the system.
constexpr std::array<std::string_view, 5> kClasses = {"08", "40", "53", "57", "58"};

constexpr std::array<std::string_view, 6> kCodes = {
    "25006",  // read_only_sql_transaction: a standby, or default_transaction_read_only
    "25P03",  // idle_in_transaction_session_timeout
    "25P04",  // transaction_timeout
    "55006",  // object_in_use
    "55P03",  // lock_not_available
    "72000",  // snapshot_too_old
};

std::array<std::atomic<std::uint64_t>, 4> seen_errors{};  // by PgReaction

std::atomic<std::uint64_t>& SeenErrors(PgReaction reaction) {
  return seen_errors.at(static_cast<std::size_t>(reaction));
}

}  // namespace

void CountPgError(PgReaction reaction) { SeenErrors(reaction).fetch_add(1, std::memory_order_relaxed); }

std::uint64_t PgErrorsSeen(PgReaction reaction) {
  return SeenErrors(reaction).load(std::memory_order_relaxed);
}

bool MayPass(std::string_view sqlstate) {
  const auto is_class = [&](std::string_view start) { return sqlstate.starts_with(start); };
  if (sqlstate == "08P01") return false;  // a value that the server cannot read
  return std::ranges::any_of(kClasses, is_class) || std::ranges::find(kCodes, sqlstate) != kCodes.end();
}

std::string OneLine(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

}  // namespace psp
