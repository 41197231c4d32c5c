#include "writeset/load_catalog.h"

#include "common/pg_binary.h"
#include "embedded/catalog_sql.h"
#include "embedded/known_tables_sql.h"

namespace psp {
namespace {

std::vector<std::string> Split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  while (true) {
    const std::size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string::npos) return parts;
    begin = end + 1;
  }
}

std::vector<std::uint32_t> Oids(const pqxx::field& field) {
  std::vector<std::uint32_t> oids;
  for (const std::string& part : Split(field.as<std::string>(), ',')) {
    oids.push_back(static_cast<std::uint32_t>(std::stoul(part)));
  }
  return oids;
}

CapturedTable TableOf(const pqxx::row& row) {
  CapturedTable table;
  table.table_id = row["table_id"].as<std::uint32_t>();
  table.schema_name = row["schema_name"].as<std::string>();
  table.table_name = row["table_name"].as<std::string>();
  table.key_names = Split(row["key_names"].as<std::string>(), '\1');
  table.column_names = Split(row["column_names"].as<std::string>(), '\1');
  table.columns = {row["row_type"].as<std::uint32_t>(), Oids(row["row_fields"])};
  table.key = {row["key_type"].as<std::uint32_t>(), Oids(row["key_fields"])};
  table.always_replace = row["always_replace"].as<bool>();
  table.makes_way = row["makes_way"].as<bool>();
  table.versioned = row["versioned"].as<bool>();
  return table;
}

// Of a table that has been dropped since there may be some, too.
void LoadOlderImages(pqxx::transaction_base& tx, TableCatalog* catalog) {
  for (const pqxx::row& row : tx.exec(std::string(sql::kCatalogOlderImages))) {
    const auto table = catalog->tables.find(row["table_id"].as<std::uint32_t>());
    if (table == catalog->tables.end()) continue;
    OlderImage& image = table->second.older_images[row["until_version"].as<std::uint32_t>()];
    OlderField& field = image.emplace_back();
    if (!row["place"].is_null()) field.place = row["place"].as<std::size_t>();
    if (!row["value"].is_null()) field.value = DecodeByteaText(row["value"].c_str());
  }
}

// The tables of a joining semi-primary are there before their rows, those of psp_mrv.columns among them.
void LoadMrvs(pqxx::transaction_base& tx, TableCatalog* catalog) {
  if (!tx.exec1("SELECT to_regclass('psp_mrv.columns') IS NOT NULL")[0].as<bool>()) return;
  for (const pqxx::row& row : tx.exec(std::string(sql::kCatalogMrvs))) {
    const auto column_id = row["column_id"].as<std::int32_t>();
    const auto key_size = row["key_size"].as<std::size_t>();
    catalog->mrv_columns[column_id] = {Oids(row["key_oids"]), row["report_sql"].as<std::string>()};
    catalog->mrv_parts[row["records_table_id"].as<std::uint32_t>()].push_back(
        {column_id, key_size, std::nullopt});
    catalog->mrv_parts[row["base_table_id"].as<std::uint32_t>()].push_back(
        {column_id, key_size, row["split_place"].as<std::size_t>()});
  }
}

}  // namespace

TableCatalogPtr LoadCatalog(pqxx::transaction_base& tx) {
  auto catalog = std::make_shared<TableCatalog>();
  catalog->version = tx.exec1("SELECT catalog_version FROM psp.identity")[0].as<std::uint32_t>();
  for (const pqxx::row& row : tx.exec(std::string(sql::kCatalogTables))) {
    CapturedTable table = TableOf(row);
    catalog->tables.emplace(table.table_id, std::move(table));
  }
  for (const pqxx::row& row : tx.exec(std::string(sql::kCatalogGuards))) {
    catalog->guards[row[1].as<std::uint32_t>()] = {row[0].as<std::uint32_t>(), row[2].as<std::string>()};
  }
  for (const pqxx::row& row : tx.exec(std::string(sql::kCatalogForeignKeys))) {
    catalog->foreign_keys[row[0].as<std::uint32_t>()].push_back(
        {row[1].as<std::string>(), row[2].as<std::string>(), row[3].as<std::string>()});
  }
  LoadOlderImages(tx, catalog.get());
  LoadMrvs(tx, catalog.get());
  return catalog;
}

PgResult<TableCatalogPtr> LoadCatalog(PgSession& session) {
  return session.SnapshotTransaction(
      [](pqxx::transaction<pqxx::repeatable_read>& tx) { return LoadCatalog(tx); });
}

KnownTables LoadKnownTables(pqxx::transaction_base& tx) {
  KnownTables tables;
  for (const pqxx::row& row : tx.exec(std::string(sql::kKnownTables))) {
    tables.version = row[0].as<std::uint32_t>();
    if (row[1].is_null()) continue;
    KnownTable& table = tables.numbers[row[1].as<std::uint32_t>()];
    table.changed_in = row[2].as<std::uint32_t>();
    table.dropped = row[3].as<bool>();
    if (!row[4].is_null()) table.of_table = row[4].as<std::uint32_t>();
    if (row[5].is_null()) continue;
    if (const auto bytes = DecodeByteaText(row[5].c_str())) table.form = DecodeTableForm(*bytes);
  }
  return tables;
}

}  // namespace psp
