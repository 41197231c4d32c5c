#include "semi_primary/losses/loss_report.h"

#include <algorithm>

#include "common/pg_binary.h"
#include "semi_primary/losses/remedy.h"

namespace psp::sp {
namespace {

constexpr std::string_view kPlainName = "abcdefghijklmnopqrstuvwxyz_0123456789";

// As it may be typed: quoted unless it is plain. A key word in quotes would do no harm, without them psp's command takes it as well.
std::string Quoted(const std::string& name) {
  const bool plain = !name.empty() && (name[0] < '0' || name[0] > '9') &&
                     name.find_first_not_of(kPlainName) == std::string::npos;
  if (plain) return name;
  std::string out = "\"";
  for (const char c : name) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

bool IsNumber(std::uint32_t type_oid) {
  constexpr std::uint32_t kNumbers[] = {kOidInt2, kOidInt4, kOidInt8, kOidFloat4, kOidFloat8, kOidNumeric};
  return std::find(std::begin(kNumbers), std::end(kNumbers), type_oid) != std::end(kNumbers);
}

std::vector<LossFacts::Column> ChangedColumns(const TableCatalog* catalog, std::uint32_t table_id,
                                              const std::set<std::size_t>& places) {
  std::vector<LossFacts::Column> columns;
  if (catalog == nullptr) return columns;
  const auto table = catalog->tables.find(table_id);
  if (table == catalog->tables.end()) return columns;
  for (const std::size_t place : places) {
    if (place >= table->second.column_names.size()) continue;
    columns.push_back({Quoted(table->second.column_names[place]),
                       IsNumber(table->second.columns.fields[place]), catalog->mrv_parts.contains(table_id)});
  }
  return columns;
}

void AddKey(const LostKeys::Ranked& ranked, const TableCatalog* catalog, const KeyNames& names,
            const std::function<std::string(SpId)>& sp_name, proto::LossReport::Window* window) {
  const auto& [key, kind] = ranked.id;
  proto::LossReport::Key* one = window->add_keys();
  one->set_schema_name(names.schema_name);
  one->set_table_name(names.table_name);
  one->set_index_name(names.index_name);
  if (!key.key.empty()) one->set_key(DescribeKey(names, key.key));
  one->set_kind(kind);
  one->set_losses(ranked.lost.losses);
  one->set_query_id(ranked.lost.query_id);
  one->set_spent_ms(static_cast<std::uint64_t>(ranked.lost.spent_us / 1000));
  LossFacts facts;
  facts.kind = kind;
  if (!names.schema_name.empty()) facts.table = Quoted(names.schema_name) + "." + Quoted(names.table_name);
  facts.changed = ChangedColumns(catalog, key.table_id, ranked.lost.changed);
  facts.losses = ranked.lost.losses;
  for (const auto& [sp_id, losses] : ranked.lost.winners) {
    if (sp_id == 0) continue;
    proto::LossReport::Winner* winner = one->add_winners();
    winner->set_name(sp_name(sp_id));
    winner->set_losses(losses);
    if (losses > facts.its_wins) {
      facts.its_wins = losses;
      facts.usual_winner = winner->name();
    }
  }
  for (const LossFacts::Column& column : facts.changed) one->add_changed_columns(column.name);
  one->set_remedy(Remedy(facts));
}

}  // namespace

proto::LossReport ReportLosses(const LostKeys& lost_keys, const TableCatalog* catalog,
                               const std::function<KeyNames(std::uint32_t table_id)>& names,
                               const std::function<std::string(SpId)>& sp_name, std::int64_t now_us) {
  proto::LossReport report;
  for (const LostKeys::Window& window : lost_keys.Rank(kReportedKeysMax, now_us)) {
    proto::LossReport::Window* told = report.add_windows();
    told->set_seconds(static_cast<std::uint32_t>(window.us / 1'000'000));
    told->set_losses(window.losses);
    told->set_error_max(window.losses_error);
    for (const LostKeys::Ranked& ranked : window.ranked) {
      AddKey(ranked, catalog, names(ranked.id.first.table_id), sp_name, told);
    }
  }
  return report;
}

}  // namespace psp::sp
