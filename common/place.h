// Which database of which server answers, beside the one that a semi-primary's daemon was started with. Pure.
#pragma once

#include <string_view>

namespace psp {

enum class Place {
  kSame,
  kPromoted,  // a standby of the same server, which was promoted since
  kStandby,   // of the same server; it may be promoted soon
  kOther,     // also where there is no psp, and a server that was promoted away from
};

// Of psp.this_database(). That of an older psp has one part.
struct PlaceParts {
  std::string_view server;
  std::string_view timeline;  // hexadecimal, of a fixed length; empty: a standby
  bool has_timeline = false;
};

inline PlaceParts PartsOfPlace(std::string_view text) {
  const auto first = text.find('.');
  if (first == std::string_view::npos) return {text, {}, false};
  const auto second = text.find('.', first + 1);
  return {text.substr(0, first), text.substr(first + 1, second - first - 1), true};
}

// Both as psp.this_database() (sql/semi_primary/install/semi_primary.sql) tells it.
inline Place PlaceOf(std::string_view at_start, std::string_view now) {
  if (at_start == now) return Place::kSame;
  const PlaceParts then = PartsOfPlace(at_start);
  const PlaceParts here = PartsOfPlace(now);
  if (here.server != then.server || !here.has_timeline || !then.has_timeline) return Place::kOther;
  if (here.timeline.empty()) return Place::kStandby;
  return here.timeline > then.timeline ? Place::kPromoted : Place::kOther;
}

}  // namespace psp
