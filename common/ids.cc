#include "common/ids.h"

namespace psp {
namespace {

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool IsDashPlace(std::size_t i) { return i == 8 || i == 13 || i == 18 || i == 23; }

}  // namespace

std::optional<TxId> TxId::FromBytes(std::string_view bytes) {
  if (bytes.size() != kSize) return std::nullopt;
  TxId id;
  std::memcpy(id.bytes_.data(), bytes.data(), kSize);
  return id;
}

std::optional<TxId> TxId::FromText(std::string_view text) {
  if (text.size() != 36) return std::nullopt;
  TxId id;
  std::size_t nibble = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (IsDashPlace(i)) {
      if (text[i] != '-') return std::nullopt;
      continue;
    }
    const int digit = HexDigit(text[i]);
    if (digit < 0) return std::nullopt;
    std::uint8_t& byte = id.bytes_[nibble / 2];
    byte = static_cast<std::uint8_t>(byte << 4 | digit);
    ++nibble;
  }
  return id;
}

std::string TxId::ToText() const {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(36);
  for (const std::uint8_t byte : bytes_) {
    if (IsDashPlace(text.size())) text += '-';
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace psp
