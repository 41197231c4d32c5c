#include "writeset/values.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <unordered_map>

#include "common/pg_binary.h"
#include "writeset/numeric_value.h"

namespace psp {
namespace {

constexpr std::uint32_t kJson = 114;
constexpr std::uint32_t kJsonb = 3802;
constexpr std::uint32_t kCidr = 650;
constexpr std::uint32_t kInet = 869;
constexpr std::uint32_t kTime = 1083;
constexpr std::uint32_t kInterval = 1186;
constexpr std::uint32_t kTimetz = 1266;
constexpr std::uint32_t kBit = 1560;
constexpr std::uint32_t kVarbit = 1562;

constexpr std::int32_t kModifierOffset = 4;  // of lengths
constexpr std::size_t kNameMax = 63;
constexpr std::int32_t kDayMin = -2'451'545;  // 4714-11-24 BC
constexpr std::int32_t kDayEnd = 2'145'031'949;
constexpr std::int64_t kTimestampMin = -211'813'488'000'000'000;
constexpr std::int64_t kTimestampEnd = 9'223'371'331'200'000'000;
constexpr std::int64_t kDayUs = 86'400'000'000;
constexpr std::int32_t kZoneLimit = 16 * 3600;

// How many bytes the form of a type always has.
const std::unordered_map<std::uint32_t, std::size_t>& Sizes() {
  static const std::unordered_map<std::uint32_t, std::size_t> sizes{
      {kOidBool, 1}, {kOidChar, 1},   {kOidInt2, 2},      {kOidInt4, 4},
      {kOidOid, 4},  {kOidCid, 4},    {kOidFloat4, 4},    {kOidDate, 4},
      {28, 4},       {27, 6},         {kOidInt8, 8},      {kOidFloat8, 8},
      {790, 8},      {kTime, 8},      {kOidTimestamp, 8}, {kOidTimestamptz, 8},
      {3220, 8},     {5069, 8},       {829, 6},           {774, 8},
      {kTimetz, 12}, {kInterval, 16}, {kOidUuid, 16},     {600, 16},
      {601, 32},     {603, 32}};
  return sizes;
}

std::size_t Characters(std::string_view utf8) {
  return static_cast<std::size_t>(
      std::ranges::count_if(utf8, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

bool IsText(const ColumnForm& column, std::string_view value) {
  if (!IsUtf8(value)) return false;
  if (column.type == kOidName) return value.size() <= kNameMax;
  if (column.modifier < kModifierOffset) return true;
  const auto length = static_cast<std::size_t>(column.modifier - kModifierOffset);
  return (column.type != kOidVarchar && column.type != kOidBpchar) || Characters(value) <= length;
}

bool IsDay(std::int32_t day) {
  return (day >= kDayMin && day < kDayEnd) || day == std::numeric_limits<std::int32_t>::min() ||
         day == std::numeric_limits<std::int32_t>::max();
}

bool IsTimestamp(std::int64_t us) {
  return (us >= kTimestampMin && us < kTimestampEnd) || us == std::numeric_limits<std::int64_t>::min() ||
         us == std::numeric_limits<std::int64_t>::max();
}

bool IsTime(std::string_view value) {
  const std::int64_t us = *ReadInt64(value.substr(0, 8));
  return us >= 0 && us <= kDayUs;
}

bool IsBits(const ColumnForm& column, std::string_view value) {
  const auto count = value.size() < 4 ? std::nullopt : ReadInt32(value.substr(0, 4));
  if (!count || *count < 0) return false;
  const auto bits = static_cast<std::size_t>(*count);
  if (value.size() != 4 + (bits + 7) / 8) return false;
  if (column.modifier < 0) return true;
  const auto length = static_cast<std::size_t>(column.modifier);
  return column.type == kBit ? bits == length : bits <= length;
}

// family, bits of the mask, whether it is a cidr, bytes of the address, address
bool IsAddress(bool is_cidr, std::string_view value) {
  if (value.size() < 4) return false;
  const auto at = [&](std::size_t place) {
    return static_cast<unsigned>(static_cast<unsigned char>(value[place]));
  };
  const std::size_t bytes = at(0) == 2 ? 4 : 16;
  if ((at(0) != 2 && at(0) != 3) || at(1) > bytes * 8 || at(2) != (is_cidr ? 1U : 0U) || at(3) != bytes ||
      value.size() != 4 + bytes)
    return false;
  for (std::size_t bit = at(1); is_cidr && bit < bytes * 8; ++bit) {
    if ((at(4 + bit / 8) & (0x80U >> (bit % 8))) != 0) return false;
  }
  return true;
}

bool IsOfFixedSize(const ColumnForm& column, std::string_view value) {
  switch (column.type) {
    case kOidDate:
      return IsDay(*ReadInt32(value));
    case kOidTimestamp:
    case kOidTimestamptz:
      return IsTimestamp(*ReadInt64(value));
    case kTime:
      return IsTime(value);
    case kTimetz: {
      const std::int32_t zone = *ReadInt32(value.substr(8));
      return IsTime(value) && zone > -kZoneLimit && zone < kZoneLimit;
    }
    default:
      return true;
  }
}

bool IsNan(std::string_view float_value) {
  if (float_value.size() != 4 && float_value.size() != 8) return false;
  const bool is_short = float_value.size() == 4;
  const auto bits = static_cast<std::uint64_t>(is_short ? *ReadInt32(float_value) : *ReadInt64(float_value));
  const std::uint64_t exponent = is_short ? 0x7F800000 : 0x7FF0000000000000;
  const std::uint64_t mantissa = is_short ? 0x007FFFFF : 0x000FFFFFFFFFFFFF;
  return (bits & exponent) == exponent && (bits & mantissa) != 0;
}

bool IsZero(std::string_view value) {  // of a float
  return !value.empty() && (static_cast<unsigned char>(value[0]) & 0x7FU) == 0 &&
         std::ranges::all_of(value.substr(1), [](char c) { return c == 0; });
}

}  // namespace

bool IsUtf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto at = [&](std::size_t n) {
      return i + n < text.size() ? static_cast<unsigned char>(text[i + n]) : 0U;
    };
    const auto continues = [&](std::size_t n) { return (at(n) & 0xC0U) == 0x80U; };
    const unsigned first = at(0);
    std::size_t bytes = 0;
    if (first >= 0x01 && first <= 0x7F) {
      bytes = 1;
    } else if (first >= 0xC2 && first <= 0xDF) {
      bytes = 2;
    } else if (first >= 0xE0 && first <= 0xEF) {
      bytes = (first == 0xE0 && at(1) < 0xA0) || (first == 0xED && at(1) > 0x9F) ? 0 : 3;
    } else if (first >= 0xF0 && first <= 0xF4) {
      bytes = (first == 0xF0 && at(1) < 0x90) || (first == 0xF4 && at(1) > 0x8F) ? 0 : 4;
    }
    if (bytes == 0) return false;
    for (std::size_t n = 1; n < bytes; ++n) {
      if (!continues(n)) return false;
    }
    i += bytes;
  }
  return true;
}

bool IsValue(const ColumnForm& column, std::string_view value) {
  if (const auto size = Sizes().find(column.type); size != Sizes().end())
    return value.size() == size->second && IsOfFixedSize(column, value);
  switch (column.type) {
    case kOidText:
    case kOidName:
    case kOidVarchar:
    case kOidBpchar:
      return IsText(column, value);
    case kJson:
      return IsUtf8(value);
    case kJsonb:
      return !value.empty() && value[0] == 1 && IsUtf8(value.substr(1));
    case kOidNumeric: {
      const auto number = DecodeNumeric(value);
      return number && FitsModifier(*number, column.modifier);
    }
    case kBit:
    case kVarbit:
      return IsBits(column, value);
    case kInet:
    case kCidr:
      return IsAddress(column.type == kCidr, value);
    default:
      return true;
  }
}

bool IsNormalised(const KeyForm& key, std::string_view value) {
  if (key.normalise == Normalise::kNumeric && key.type == kOidNumeric) {
    const auto number = DecodeNumeric(value);
    return number && IsTrimmed(*number);
  }
  return key.normalise != Normalise::kFloat || !IsZero(value) || value[0] == 0;
}

bool IsKeyOf(const KeyForm& key, std::string_view key_value, std::uint32_t image_type,
             std::string_view image_value) {
  if (key.type != image_type) return true;  // a domain's text
  switch (key.normalise) {
    case Normalise::kNone:
      return key_value == image_value;
    case Normalise::kNumeric: {
      const auto of_key = DecodeNumeric(key_value);
      const auto of_image = DecodeNumeric(image_value);
      return of_key && of_image && AreEqual(*of_key, *of_image);
    }
    case Normalise::kFloat:
      return key_value == image_value || (IsZero(key_value) && IsZero(image_value)) ||
             (IsNan(key_value) && IsNan(image_value));
    default:
      return true;  // the same text may have blanks at its end in the one, and none in the other
  }
}

}  // namespace psp
