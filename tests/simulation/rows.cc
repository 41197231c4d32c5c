#include "tests/simulation/rows.h"

#include <array>
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

// The records of a binary array without NULLs, each as its numbers.
std::vector<std::vector<std::int64_t>> RecordsOf(std::string_view bytes) {
  const std::int32_t dimensions = TakeInt4(&bytes);
  const std::int32_t flags = TakeInt4(&bytes);
  TakeInt4(&bytes);  // type
  if (dimensions != 1 || flags != 0) throw std::logic_error("not an array of records");
  const std::int32_t length = TakeInt4(&bytes);
  TakeInt4(&bytes);  // lower bound
  std::vector<std::vector<std::int64_t>> records;
  for (std::int32_t i = 0; i < length; ++i) {
    const auto size = static_cast<std::size_t>(TakeInt4(&bytes));
    records.push_back(FieldsOf(bytes.substr(0, size)));
    bytes.remove_prefix(size);
  }
  return records;
}

}  // namespace

RowKey ChangeKey(std::int64_t change) { return {kHistoryTable, Record({change})}; }
RowKey CounterKey(std::int64_t id) { return {kCounters, Record({id})}; }
RowKey NameKey(std::int64_t id) { return {kNames, Record({id})}; }
RowKey NoteKey(std::uint32_t table_id, std::int64_t id) { return {table_id, Record({id})}; }
RowKey GuardKey(std::int64_t value) { return {kNamesGuard, Record({value})}; }
RowKey ParentKey(std::int64_t id) { return {kParents, Record({id})}; }
RowKey ChildKey(std::int64_t id) { return {kChildren, Record({id})}; }
RowKey DoctorKey(std::int64_t id) { return {kDoctors, Record({id})}; }

std::string Image(std::int64_t id, std::int64_t value) { return Record({id, value}); }
std::int64_t ValueOf(const std::string& image) { return FieldsOf(image).at(1); }
std::int64_t IdOf(const RowKey& key) { return FieldsOf(key.key).at(0); }

std::vector<RowKey> UnpackKeys(std::uint32_t table_id, std::string_view array) {
  std::vector<RowKey> keys;
  for (const auto& record : RecordsOf(array)) keys.push_back({table_id, Record({record.at(0)})});
  return keys;
}

std::vector<std::pair<RowKey, std::string>> UnpackRows(std::uint32_t table_id, std::string_view array) {
  std::vector<std::pair<RowKey, std::string>> rows;
  for (const auto& record : RecordsOf(array)) {
    rows.emplace_back(RowKey{table_id, Record({record.at(0)})}, Image(record[0], record.at(1)));
  }
  return rows;
}

std::string Text(const RowKey& key) {
  constexpr std::array kTables = {"schema change ", "counter ", "name ",  "value ",
                                  "parent ",        "child ",   "doctor "};
  const std::string table = key.table_id < kTables.size()
                                ? kTables.at(key.table_id)
                                : "note of table " + std::to_string(key.table_id) + " ";
  return table + std::to_string(IdOf(key));
}

}  // namespace psp::simulation
