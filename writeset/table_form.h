// The form of a table's keys and images: what each field's value must be (FORMAT.md, "Form"). Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace psp {

struct ColumnForm {
  std::uint32_t type = 0;      // of the field in the record; 0: not known
  std::int32_t modifier = -1;  // PostgreSQL's atttypmod; -1: none
  bool not_null = false;

  friend bool operator==(const ColumnForm&, const ColumnForm&) = default;
};

// FORMAT.md, "Key". The numbers are those of the form's bytes.
enum class Normalise : std::uint8_t { kNone = 0, kNumeric = 1, kFloat = 2, kText = 3, kBase = 4 };

struct KeyForm {
  std::uint32_t type = 0;            // as above
  std::optional<std::size_t> place;  // of its column in the image; nothing: it is generated
  Normalise normalise = Normalise::kNone;

  friend bool operator==(const KeyForm&, const KeyForm&) = default;
};

struct TableForm {
  std::vector<ColumnForm> columns;
  std::vector<KeyForm> key;

  friend bool operator==(const TableForm&, const TableForm&) = default;
};

// Nothing: the bytes are malformed, or a key has no column.
std::optional<TableForm> DecodeTableForm(std::string_view bytes);
// The opposite.
std::string EncodeTableForm(const TableForm& form);

}  // namespace psp
