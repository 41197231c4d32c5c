#include "tests/simulation/rows.h"

#include <stdexcept>

#include "common/pg_binary.h"

namespace psp::simulation {
namespace {

std::string Int8(std::int64_t value) {
  std::string bytes;
  AppendInt64(&bytes, value);
  return bytes;
}

std::string Record(const std::vector<std::int64_t>& values) {
  std::vector<std::string> bytes;
  for (const std::int64_t value : values) bytes.push_back(Int8(value));
  std::vector<RecordField> fields;
  for (const std::string& one : bytes) fields.push_back({kOidInt8, one});
  std::string record;
  AppendRecord(&record, fields);
  return record;
}

std::vector<std::int64_t> FieldsOf(std::string_view record) {
  std::vector<RecordField> fields;
  if (const std::string error = DecodeRecord(&record, &fields); !error.empty()) throw std::logic_error(error);
  std::vector<std::int64_t> values;
  for (const RecordField& field : fields) values.push_back(ReadInt64(field.value.value()).value());
  return values;
}

std::int32_t TakeInt4(std::string_view* bytes) {
  const std::int32_t value = ReadInt32(bytes->substr(0, 4)).value();
  bytes->remove_prefix(4);
  return value;
}

// A binary int8[] without NULLs.
std::vector<std::int64_t> ArrayOf(std::string_view bytes) {
  const std::int32_t dimensions = TakeInt4(&bytes);
  const std::int32_t flags = TakeInt4(&bytes);
  const std::int32_t oid = TakeInt4(&bytes);
  if (dimensions != 1 || flags != 0 || oid != static_cast<std::int32_t>(kOidInt8)) {
    throw std::logic_error("not an int8[]");
  }
  const std::int32_t length = TakeInt4(&bytes);
  TakeInt4(&bytes);  // lower bound
  std::vector<std::int64_t> values;
  for (std::int32_t i = 0; i < length; ++i) {
    if (TakeInt4(&bytes) != 8) throw std::logic_error("not an int8");
    values.push_back(ReadInt64(bytes.substr(0, 8)).value());
    bytes.remove_prefix(8);
  }
  return values;
}

// Of a record of arrays.
std::vector<std::vector<std::int64_t>> ArraysOf(std::string_view record) {
  std::vector<RecordField> fields;
  if (const std::string error = DecodeRecord(&record, &fields); !error.empty()) throw std::logic_error(error);
  std::vector<std::vector<std::int64_t>> arrays;
  for (const RecordField& field : fields) arrays.push_back(ArrayOf(field.value.value()));
  return arrays;
}

TableCatalog MakeCatalog() {
  constexpr ArrayType kInt8 = {1016, kOidInt8};
  TableCatalog catalog;
  for (const auto& [id, name] : {std::pair{kCounters, "counters"}, std::pair{kNames, "names"}}) {
    catalog.tables[id] = {id, "public", name, {"id"}, {kInt8, kInt8}, {kInt8}};
  }
  catalog.guards[kNamesGuard] = {kNames, "names_value"};
  return catalog;
}

}  // namespace

RowKey CounterKey(std::int64_t id) { return {kCounters, Record({id})}; }
RowKey NameKey(std::int64_t id) { return {kNames, Record({id})}; }
RowKey GuardKey(std::int64_t value) { return {kNamesGuard, Record({value})}; }

std::string Image(std::int64_t id, std::int64_t value) { return Record({id, value}); }
std::int64_t ValueOf(const std::string& image) { return FieldsOf(image).at(1); }

const TableCatalog& Catalog() {
  static const TableCatalog catalog = MakeCatalog();
  return catalog;
}

RowChanges Unpack(const std::vector<TableChange>& changes) {
  RowChanges all;
  for (const TableChange& change : changes) {
    const auto key = [&](std::int64_t id) { return RowKey{change.table->table_id, Record({id})}; };
    if (!change.delete_keys.empty()) {
      const auto keys = ArraysOf(change.delete_keys);
      for (const std::int64_t id : keys.at(0)) all.deletes.push_back(key(id));
    }
    if (change.upsert_values.empty()) continue;
    const auto arrays = ArraysOf(change.upsert_values);
    const std::vector<std::int64_t>& ids = arrays.at(0);
    const std::vector<std::int64_t>& values = arrays.at(1);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      all.upserts.emplace_back(key(ids[i]), Image(ids[i], values.at(i)));
    }
  }
  return all;
}

std::string Text(const RowKey& key) {
  const char* table = key.table_id == kCounters ? "counter " : key.table_id == kNames ? "name " : "value ";
  return table + std::to_string(FieldsOf(key.key).at(0));
}

}  // namespace psp::simulation
