// The names of things that both daemons speak about. Values only: copy them freely, from any thread.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace psp {

using GlobalT = std::int64_t;  // the primary's commit number, from 1 on
using SpId = std::uint32_t;    // a semi-primary's number, from 1 on; 0: rows that were there at adoption
using Epoch = std::int64_t;    // the primary's start number, from 1 on; 0: not known yet

// A release whose wire protocol is not that of the last release raises it (CHANGELOG.md).
inline constexpr std::uint32_t kProtocolVersion = 8;

// A transaction's uuid.
class TxId {
 public:
  static constexpr std::size_t kSize = 16;

  TxId() = default;  // all zero

  // Nothing unless `bytes` has exactly 16 bytes.
  static std::optional<TxId> FromBytes(std::string_view bytes);
  // Nothing unless `text` is a uuid, 8-4-4-4-12 hexadecimal digits.
  static std::optional<TxId> FromText(std::string_view text);

  std::string ToText() const;
  std::string ToBytes() const { return std::string(View()); }
  // Valid as long as this object.
  std::string_view View() const { return {reinterpret_cast<const char*>(bytes_.data()), kSize}; }

  friend bool operator==(const TxId&, const TxId&) = default;
  friend auto operator<=>(const TxId&, const TxId&) = default;

 private:
  std::array<std::uint8_t, kSize> bytes_{};
};

// A row (or a guard) anywhere in the database; the key is record_send of its normalised key columns.
struct RowKey {
  std::uint32_t table_id = 0;
  std::string key;

  friend bool operator==(const RowKey&, const RowKey&) = default;
  friend auto operator<=>(const RowKey&, const RowKey&) = default;
};

// The same without ownership, to look up in a map without copying the key.
struct RowKeyView {
  std::uint32_t table_id = 0;
  std::string_view key;

  RowKeyView() = default;
  RowKeyView(std::uint32_t table, std::string_view bytes) : table_id(table), key(bytes) {}
  RowKeyView(const RowKey& row) : table_id(row.table_id), key(row.key) {}  // NOLINT: implicit on purpose

  friend bool operator==(const RowKeyView&, const RowKeyView&) = default;
  friend auto operator<=>(const RowKeyView&, const RowKeyView&) = default;  // NOLINT: its 0 is no pointer
};

// Use as unordered_map<RowKey, V, RowKeyHash, RowKeyEqual>: find() then takes a RowKeyView too.
struct RowKeyHash {
  using is_transparent = void;
  std::size_t operator()(const RowKeyView& row) const {
    return std::hash<std::string_view>{}(row.key) ^ (row.table_id * std::size_t{0x9E3779B97F4A7C15});
  }
  std::size_t operator()(const RowKey& row) const { return (*this)(RowKeyView(row)); }
};

struct RowKeyEqual {
  using is_transparent = void;
  bool operator()(const RowKeyView& a, const RowKeyView& b) const { return a == b; }
};

}  // namespace psp

template <>
struct std::hash<psp::TxId> {
  std::size_t operator()(const psp::TxId& id) const noexcept {
    return std::hash<std::string_view>{}(id.View());
  }
};
