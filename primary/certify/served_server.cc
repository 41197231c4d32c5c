#include "primary/certify/served_server.h"

#include <fmt/format.h>

namespace psp::primary {
namespace {

constexpr int kHalf = 32;

// As PostgreSQL writes it.
std::string Lsn(WalPosition position) {
  return fmt::format("{:X}/{:X}", position >> kHalf, position & 0xFFFFFFFF);
}

}  // namespace

std::string ServerObjection(const ServerFacts& known, const ServerFacts& found) {
  if (known.identity != found.identity) {
    return fmt::format("another server answers: system identifier and database are {}, not {}",
                       found.identity, known.identity);
  }
  if (found.is_standby) return "the server is a standby now";
  if (known.timeline != found.timeline) {
    return fmt::format("a server that was promoted answers: its timeline is {}, not {}", found.timeline,
                       known.timeline);
  }
  if (found.written < known.written) {
    return fmt::format(
        "the server has an older state than before: its WAL ends at {}, and was on its disk up to {}",
        Lsn(found.written), Lsn(known.written));
  }
  if (found.newest_t < known.newest_t) {
    return fmt::format(
        "the server has an older state than before: its newest number is {}, and {} was told to be committed",
        found.newest_t, known.newest_t);
  }
  return {};
}

}  // namespace psp::primary
