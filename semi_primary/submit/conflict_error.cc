#include "semi_primary/submit/conflict_error.h"

#include <algorithm>
#include <cctype>
#include <string>

#include "embedded/constants.h"

namespace psp::sp {
namespace {

constexpr std::size_t kNamedForeignKeysMax = 3;
constexpr std::string_view kCoarseKey("\0\0\0\0", 4);  // the record without columns (writeset/FORMAT.md)

std::string QuotedTable(const std::string& schema_name, const std::string& table_name) {
  return "\"" + schema_name + "\".\"" + table_name + "\"";
}

std::string QuotedTable(const KeyNames& names) { return QuotedTable(names.schema_name, names.table_name); }

std::string Capitalised(std::string text) {
  text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

// The row or the key, as the subject of a sentence but for its first letter.
std::string NameOf(const KeyNames& names, std::string_view key) {
  if (names.schema_name.empty()) return "a row";
  if (!names.index_name.empty())
    return "a value of index \"" + names.index_name + "\" of table " + QuotedTable(names);
  if (key == kCoarseKey) return "a key of table " + QuotedTable(names);
  return "key " + DescribeKey(names, key) + " of table " + QuotedTable(names);
}

// The foreign keys that refer to it; one of them was met.
std::string ForeignKeys(const KeyNames& names) {
  if (names.foreign_keys.empty()) return "a foreign key";
  std::string text;
  const std::size_t named = std::min(names.foreign_keys.size(), kNamedForeignKeysMax);
  for (std::size_t i = 0; i < named; ++i) {
    const ForeignKeyOf& one = names.foreign_keys[i];
    text += (i == 0 ? "" : " or ") + ("foreign key \"" + one.constraint_name + "\" of table ") +
            QuotedTable(one.schema_name, one.table_name);
  }
  const std::size_t others = names.foreign_keys.size() - named;
  return others == 0 ? text : text + " or one of " + std::to_string(others) + " others";
}

std::string AdvisoryLock(std::string_view key) {
  const std::string number = DescribeKey({}, key);  // in parentheses
  return "Advisory lock " + number.substr(1, number.size() - 2);
}

// What the winner has done.
std::string Loss(const KeyNames& names, const Conflict& conflict) {
  const std::string name = NameOf(names, conflict.key.key);
  if (!conflict.use) {
    if (conflict.key.table_id == kAdvisoryLocksId) return AdvisoryLock(conflict.key.key) + " was taken";
    return Capitalised(name) + (names.index_name.empty() ? " was changed" : " was taken");
  }
  switch (*conflict.use) {
    case proto::USE_SHARED:
      return Capitalised(name) + ", to which " + ForeignKeys(names) + " refers, was taken away";
    case proto::USE_ENDED:
      return "A row with " + ForeignKeys(names) + " that refers to " + name + " was written";
    case proto::USE_REFERRERS_READ:
      return "A row with " + ForeignKeys(names) + " that refers to " + name +
             ", of which the transaction has read all, was written";
    case proto::USE_TABLE_READ:
      if (names.schema_name.empty()) return "A table, which the transaction has read, was written";
      return "Table " + QuotedTable(names) + ", which the transaction has read, was written";
    default:
      return Capitalised(name) + ", which the transaction has read, was changed";
  }
}

// The primary certifies these from memory.
bool IsInMemory(const Conflict& conflict) { return conflict.use && conflict.use != proto::USE_READ; }

std::string Winner(const Conflict& conflict, std::string_view name) {
  if (!name.empty()) {
    return " by semi-primary \"" + std::string(name) + "\" (global_t " + std::to_string(conflict.winner_t) +
           ").";
  }
  if (IsInMemory(conflict)) {
    return ", or may have been: the primary does not remember so far back as the transaction's snapshot, or "
           "has been "
           "restarted since.";
  }
  return ", or may have been: the transaction's snapshot is older than the primary remembers deleted keys "
         "(deleted_retention_s).";
}

}  // namespace

UserError ConflictError(const KeyNames& names, const Conflict& conflict, std::string_view winner_name) {
  return {"40001", "could not serialize access due to concurrent update",
          Loss(names, conflict) + Winner(conflict, winner_name), "Retry the transaction."};
}

std::string ReservationText(const KeyNames& names, const proto::Reservation& reservation) {
  const std::string name = reservation.table_id() == kAdvisoryLocksId ? AdvisoryLock(reservation.key())
                                                                      : NameOf(names, reservation.key());
  return name + " (" + std::to_string(reservation.keys()) + " keys, for " +
         std::to_string(reservation.age_us() / 1000) + " ms, " + std::to_string(reservation.waiting()) +
         " wait)";
}

}  // namespace psp::sp
