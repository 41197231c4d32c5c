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
#include "writeset/table_form.h"
#include "writeset/values.h"

namespace psp::primary {
namespace {

std::string Of(std::string_view what, std::uint32_t number) {
  return "malformed write-set: " + std::string(what) + " table_id " + std::to_string(number);
}

class Judge {
 public:
  Judge(const CertifyRequest& request, const KnownTables& tables) : request_(request), tables_(tables) {
    for (const proto::TableChange& change : request.rows.table_changes()) {
      changed_[change.table_id()] = change.table_id();
      if (auto form = DecodeTableForm(change.form())) forms_[change.table_id()] = *std::move(form);
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
    if (!change.dropped() && !forms_.contains(change.table_id()))
      return Of("a changed table without a form,", change.table_id());
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
    return ProblemOfForm(row);
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

  // Of the table as the request leaves it; nothing: not known, or it is gone then.
  const TableForm* FormOf(std::uint32_t table_id) const {
    if (changed_.contains(table_id)) {
      const auto form = forms_.find(table_id);
      return form == forms_.end() ? nullptr : &form->second;
    }
    const auto known = tables_.numbers.find(table_id);
    return known == tables_.numbers.end() || !known->second.form ? nullptr : &*known->second.form;
  }

  std::string ProblemOfForm(const proto::Row& row) {
    const TableForm* form = FormOf(row.table_id());
    // What is deleted in a schema change may have had the table's older key.
    if (form == nullptr || (changed_.contains(row.table_id()) && !row.has_image())) return "";
    if (!Read(row.key(), form->key.size(), &key_)) return Of("a key has not the form of", row.table_id());
    for (std::size_t i = 0; i < key_.size(); ++i) {
      const KeyForm& part = form->key[i];
      if (!key_[i].value) return Of("a key is NULL,", row.table_id());
      if (!Fits({part.type, -1, true}, key_[i])) return Of("a key has not the form of", row.table_id());
      if (!IsNormalised(part, *key_[i].value)) return Of("a key is not normalised,", row.table_id());
    }
    return row.has_image() ? ProblemOfImage(row, *form) : "";
  }

  // After the key.
  std::string ProblemOfImage(const proto::Row& row, const TableForm& form) {
    if (!Read(row.image(), form.columns.size(), &image_))
      return Of("an image has not the form of", row.table_id());
    for (std::size_t i = 0; i < image_.size(); ++i) {
      if (!Fits(form.columns[i], image_[i])) return Of("an image has not the form of", row.table_id());
    }
    for (std::size_t i = 0; i < key_.size(); ++i) {
      if (!form.key[i].place) continue;
      const RecordField& field = image_[*form.key[i].place];
      if (!field.value || !IsKeyOf(form.key[i], *key_[i].value, field.type_oid, *field.value))
        return Of("an image has another key,", row.table_id());
    }
    return "";
  }

  bool Belongs(std::uint32_t number, std::uint32_t table_id) const {
    const auto known = tables_.numbers.find(number);
    return known == tables_.numbers.end() || known->second.of_table.value_or(table_id) == table_id;
  }

  static bool Read(std::string_view record, std::size_t size, std::vector<RecordField>* fields) {
    return DecodeRecord(&record, fields).empty() && record.empty() && fields->size() == size;
  }

  static bool Fits(const ColumnForm& form, const RecordField& field) {
    if (form.type != 0 && field.type_oid != form.type) return false;
    return field.value ? IsValue(form, *field.value) : !form.not_null;
  }

  const CertifyRequest& request_;
  const KnownTables& tables_;
  std::unordered_map<std::uint32_t, std::uint32_t>
      changed_;                                         // by the request: tables and guards, and their tables
  std::unordered_set<std::uint32_t> written_;           // tables
  std::unordered_map<std::uint32_t, TableForm> forms_;  // that the request makes
  std::vector<RecordField> key_;
  std::vector<RecordField> image_;
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
