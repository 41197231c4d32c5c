#include "writeset/table_form.h"

#include "common/pg_binary.h"

namespace psp {
namespace {

// Takes its fields from the front.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}

  std::int32_t Int16() { return ReadInt16(Take(2)).value_or(-1); }
  std::int32_t Int32() { return ReadInt32(Take(4)).value_or(-1); }
  std::uint8_t Byte() {
    const std::string_view byte = Take(1);
    return byte.empty() ? 0 : static_cast<std::uint8_t>(byte[0]);
  }
  bool ok() const { return ok_; }
  bool AtEnd() const { return ok_ && rest_.empty(); }

 private:
  std::string_view Take(std::size_t size) {
    if (size > rest_.size()) ok_ = false;
    if (!ok_) return {};
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }

  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace

std::optional<TableForm> DecodeTableForm(std::string_view bytes) {
  Reader reader(bytes);
  TableForm form;
  for (std::int32_t left = reader.Int16(); left > 0 && reader.ok(); --left) {
    ColumnForm& column = form.columns.emplace_back();
    column.type = static_cast<std::uint32_t>(reader.Int32());
    column.modifier = reader.Int32();
    column.not_null = reader.Byte() != 0;
  }
  for (std::int32_t left = reader.Int16(); left > 0 && reader.ok(); --left) {
    KeyForm& key = form.key.emplace_back();
    key.type = static_cast<std::uint32_t>(reader.Int32());
    const std::int32_t place = reader.Int32();
    if (place >= static_cast<std::int32_t>(form.columns.size())) return std::nullopt;
    if (place >= 0) key.place = static_cast<std::size_t>(place);
    const std::uint8_t normalise = reader.Byte();
    if (normalise > static_cast<std::uint8_t>(Normalise::kBase)) return std::nullopt;
    key.normalise = static_cast<Normalise>(normalise);
  }
  if (!reader.AtEnd() || form.key.empty()) return std::nullopt;
  return form;
}

std::string EncodeTableForm(const TableForm& form) {
  std::string bytes;
  AppendInt16(&bytes, static_cast<std::int16_t>(form.columns.size()));
  for (const ColumnForm& column : form.columns) {
    AppendInt32(&bytes, static_cast<std::int32_t>(column.type));
    AppendInt32(&bytes, column.modifier);
    bytes.push_back(column.not_null ? '\1' : '\0');
  }
  AppendInt16(&bytes, static_cast<std::int16_t>(form.key.size()));
  for (const KeyForm& key : form.key) {
    AppendInt32(&bytes, static_cast<std::int32_t>(key.type));
    AppendInt32(&bytes, key.place ? static_cast<std::int32_t>(*key.place) : -1);
    bytes.push_back(static_cast<char>(key.normalise));
  }
  return bytes;
}

}  // namespace psp
