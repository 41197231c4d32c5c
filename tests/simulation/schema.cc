#include "tests/simulation/schema.h"

#include <algorithm>
#include <memory>

#include "common/pg_binary.h"

namespace psp::simulation {

constexpr std::int64_t kKinds = 5;

std::string StatementOf(std::int64_t change, const SchemaChange& what) {
  return Image(change, std::int64_t{what.table_id} * kKinds + static_cast<std::int64_t>(what.kind));
}

SchemaChange ChangeIn(const std::string& image) {
  const std::int64_t value = ValueOf(image);
  return {static_cast<SchemaChange::Kind>(value % kKinds), static_cast<std::uint32_t>(value / kKinds)};
}

TableForm FormOfTables() {
  return {{{kOidInt8, -1, true}, {kOidInt8, -1, true}}, {{kOidInt8, 0, Normalise::kNone}}};
}

proto::TableChange TableChangeOf(const SchemaChange& what, Mutation mutation) {
  proto::TableChange change;
  change.set_table_id(what.table_id);
  change.set_dropped(what.kind == SchemaChange::Kind::kDrop);
  change.set_emptied(what.kind == SchemaChange::Kind::kEmpty);
  if (what.table_id == kNames) change.add_guard_ids(kNamesGuard);
  if (change.dropped()) return change;
  TableForm form = FormOfTables();
  if (mutation == Mutation::kFormsAreNotTold) form = {{{}, {}}, {{}}};
  if (mutation == Mutation::kKeysOfImagesAreNotTold) form.key[0].place.reset();
  change.set_form(EncodeTableForm(form));
  return change;
}

void Schema::Add(const SchemaChange& what) {
  ++version;
  if (what.kind == SchemaChange::Kind::kDrop) created.erase(what.table_id);
  if (what.kind != SchemaChange::Kind::kCreate) return;
  created.insert(what.table_id);
  last_number = std::max(last_number, what.table_id);
}

TableCatalogPtr CatalogOf(const Schema& schema) {
  constexpr std::uint32_t kRecord = 2249;
  auto catalog = std::make_shared<TableCatalog>();
  catalog->version = schema.version;
  const auto add = [&](std::uint32_t id, const std::string& name) {
    catalog->tables[id] = {
        id, "public", name, {"id"}, {kRecord, {kOidInt8, kOidInt8}}, {kRecord, {kOidInt8}}};
  };
  add(kHistoryTable, "schema_history");
  add(kCounters, "counters");
  add(kNames, "names");
  add(kParents, "parents");
  add(kChildren, "children");
  add(kDoctors, "doctors");
  for (const std::uint32_t id : schema.created) add(id, "notes_" + std::to_string(id));
  catalog->guards[kNamesGuard] = {kNames, "names_value"};
  return catalog;
}

}  // namespace psp::simulation
