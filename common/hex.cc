#include "common/hex.h"

#include <array>
#include <cstdint>

namespace psp {
namespace {

constexpr std::uint8_t kNoDigit = 0xFF;

constexpr std::array<std::uint8_t, 256> MakeTable() {
  std::array<std::uint8_t, 256> table{};
  table.fill(kNoDigit);
  for (std::uint8_t i = 0; i < 10; ++i) table['0' + i] = i;
  for (std::uint8_t i = 0; i < 6; ++i) {
    table['a' + i] = static_cast<std::uint8_t>(10 + i);
    table['A' + i] = static_cast<std::uint8_t>(10 + i);
  }
  return table;
}

constexpr std::array<std::uint8_t, 256> kDigit = MakeTable();

}  // namespace

std::optional<std::string> DecodeHex(std::string_view hex) {
  if (hex.size() % 2 != 0) return std::nullopt;
  std::string bytes(hex.size() / 2, '\0');
  std::uint8_t wrong = 0;  // gathered without a branch in the loop: kNoDigit is the only value with high bits
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const std::uint8_t high = kDigit[static_cast<std::uint8_t>(hex[2 * i])];
    const std::uint8_t low = kDigit[static_cast<std::uint8_t>(hex[2 * i + 1])];
    wrong = static_cast<std::uint8_t>(wrong | high | low);
    bytes[i] = static_cast<char>(high << 4 | low);
  }
  if ((wrong & 0xF0) != 0) return std::nullopt;
  return bytes;
}

std::string EncodeHex(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  hex.reserve(2 * bytes.size());
  for (const char c : bytes) {
    const auto byte = static_cast<std::uint8_t>(c);
    hex.push_back(kDigits[byte >> 4]);
    hex.push_back(kDigits[byte & 0xF]);
  }
  return hex;
}

}  // namespace psp
