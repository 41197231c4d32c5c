#include "primary/core/catalog_check.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "common/pg_binary.h"
#include "embedded/constants.h"

namespace psp::primary {
namespace {

std::string Of(std::string_view what, std::uint32_t number) {
  return "malformed write-set: " + std::string(what) + " table_id " + std::to_string(number);
}

// How many bytes PostgreSQL's binary form of a type always has; 0: any number.
std::size_t SizeOf(std::uint32_t type) {
  switch (type) {
    case 16:  // boolean
    case 18:  // "char"
      return 1;
    case 21:  // smallint
      return 2;
    case 23:    // integer
    case 26:    // oid
    case 700:   // real
    case 1082:  // date
      return 4;
    case 20:    // bigint
    case 701:   // double precision
    case 790:   // money
    case 1083:  // time
    case 1114:  // timestamp
    case 1184:  // timestamptz
      return 8;
    case 1266:  // timetz
      return 12;
    case 1186:  // interval
    case 2950:  // uuid
      return 16;
    default:
      return 0;
  }
}

bool IsText(std::uint32_t type) { return type == kOidText || type == 1042 || type == 1043; }

// As PostgreSQL has it: without zeros, surrogates and needlessly long forms.
bool IsUtf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto at = [&](std::size_t n) {
      return i + n < text.size() ? static_cast<unsigned char>(text[i + n]) : 0U;
    };
    const auto continues = [&](std::size_t n) { return (at(n) & 0xC0U) == 0x80U; };
    const unsigned first = at(0);
    std::size_t bytes = 0;
    if (first >= 0x01 && first <= 0x7F) {
      bytes = 1;
    } else if (first >= 0xC2 && first <= 0xDF) {
      bytes = 2;
    } else if (first >= 0xE0 && first <= 0xEF) {
      bytes = (first == 0xE0 && at(1) < 0xA0) || (first == 0xED && at(1) > 0x9F) ? 0 : 3;
    } else if (first >= 0xF0 && first <= 0xF4) {
      bytes = (first == 0xF0 && at(1) < 0x90) || (first == 0xF4 && at(1) > 0x8F) ? 0 : 4;
    }
    if (bytes == 0) return false;
    for (std::size_t n = 1; n < bytes; ++n) {
      if (!continues(n)) return false;
    }
    i += bytes;
  }
  return true;
}

bool IsReadable(const RecordField& field) {
  if (!field.value) return true;
  const std::size_t size = SizeOf(field.type_oid);
  if (size != 0 && field.value->size() != size) return false;
  return !IsText(field.type_oid) || IsUtf8(*field.value);
}

class Judge {
 public:
  Judge(const CertifyRequest& request, const KnownTables& tables) : request_(request), tables_(tables) {
    for (const proto::TableChange& change : request.rows.table_changes()) {
      changed_[change.table_id()] = change.table_id();
      for (const std::uint32_t guard_id : change.guard_ids()) changed_[guard_id] = change.table_id();
    }
    for (const proto::Row& row : request.rows.rows()) {
      if (row.access() == proto::ACCESS_WRITE) written_.insert(row.table_id());
    }
  }

  std::string ProblemOf(const proto::TableChange& change) const {
    if (!Belongs(change.table_id(), change.table_id()))
      return Of("a changed table has the number of a guard,", change.table_id());
    for (const std::uint32_t guard_id : change.guard_ids()) {
      if (guard_id == change.table_id() || !Belongs(guard_id, change.table_id()))
        return Of("a changed table has the number of something else,", guard_id);
    }
    return "";
  }

  std::string ProblemOf(const proto::Row& row) {
    if (row.catalog_version() != 0) return Of("a row of a copy,", row.table_id());
    const auto owner = OwnerOf(row.table_id());
    if (row.access() == proto::ACCESS_GUARD) {
      if (owner == row.table_id()) return Of("a guard has the number of a table,", row.table_id());
      const bool is_rows = request_.rows.kind() == proto::ENTRY_ROWS;
      if (is_rows && owner && !written_.contains(*owner))
        return Of("a guard without a row of its table,", row.table_id());
      return "";
    }
    if (owner.value_or(row.table_id()) != row.table_id())
      return Of("a row has the number of a guard,", row.table_id());
    return changed_.contains(row.table_id()) ? "" : ProblemOfForm(row);
  }

  std::string ProblemOf(const proto::KeyUse& use) const {
    const bool of_rows = use.kind() == proto::USE_READ || use.kind() == proto::USE_TABLE_READ;
    if (!of_rows || OwnerOf(use.table_id()).value_or(use.table_id()) == use.table_id()) return "";
    return Of("a guard is read,", use.table_id());
  }

 private:
  // The table that the number belongs to; nothing: it is not known.
  std::optional<std::uint32_t> OwnerOf(std::uint32_t number) const {
    if (const auto changed = changed_.find(number); changed != changed_.end()) return changed->second;
    const auto known = tables_.numbers.find(number);
    return known == tables_.numbers.end() ? std::nullopt : known->second.of_table;
  }

  std::string ProblemOfForm(const proto::Row& row) {
    const auto known = tables_.numbers.find(row.table_id());
    if (known == tables_.numbers.end() || known->second.key.empty()) return "";
    if (!Fits(row.key(), known->second.key)) return Of("a key has not the form of", row.table_id());
    if (std::ranges::any_of(fields_, [](const RecordField& field) { return !field.value; }))
      return Of("a key is NULL,", row.table_id());
    if (row.has_image() && !Fits(row.image(), known->second.columns))
      return Of("an image has not the form of", row.table_id());
    return "";
  }

  bool Belongs(std::uint32_t number, std::uint32_t table_id) const {
    const auto known = tables_.numbers.find(number);
    return known == tables_.numbers.end() || known->second.of_table.value_or(table_id) == table_id;
  }

  bool Fits(std::string_view record, const std::vector<std::uint32_t>& types) {
    if (!DecodeRecord(&record, &fields_).empty() || !record.empty()) return false;
    return std::ranges::equal(fields_, types, [](const RecordField& field, std::uint32_t type) {
      return (type == 0 || field.type_oid == type) && IsReadable(field);
    });
  }

  const CertifyRequest& request_;
  const KnownTables& tables_;
  std::unordered_map<std::uint32_t, std::uint32_t>
      changed_;                                // by the request: tables and guards, and their tables
  std::unordered_set<std::uint32_t> written_;  // tables
  std::vector<RecordField> fields_;
};

}  // namespace

std::string ProblemByCatalog(const CertifyRequest& request, const KnownTables& tables) {
  Judge judge(request, tables);
  for (const proto::TableChange& change : request.rows.table_changes()) {
    if (std::string problem = judge.ProblemOf(change); !problem.empty()) return problem;
  }
  for (const proto::Row& row : request.rows.rows()) {
    if (std::string problem = judge.ProblemOf(row); !problem.empty()) return problem;
  }
  for (const proto::KeyUse& use : request.uses.keys()) {
    if (std::string problem = judge.ProblemOf(use); !problem.empty()) return problem;
  }
  return "";
}

}  // namespace psp::primary
