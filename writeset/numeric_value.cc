#include "writeset/numeric_value.h"

#include <cstddef>

#include "common/pg_binary.h"

namespace psp {
namespace {

constexpr std::int32_t kDigitsOfOne = 4;  // a digit of base 10000
constexpr std::size_t kHeader = 8;
constexpr std::int32_t kScaleMax = 0x3FFF;
constexpr int kModifierOffset = 4;

constexpr std::int32_t kTens[] = {1, 10, 100, 1000, 10000};

// How many of the four decimal places of a digit are used, from the left.
std::int32_t UsedPlaces(std::int16_t digit) {
  std::int32_t used = kDigitsOfOne;
  while (used > 0 && digit % kTens[kDigitsOfOne - used + 1] == 0) --used;
  return used;
}

// Digits after the point that are not zeros at the end.
std::int32_t NeededScale(const NumericValue& value) {
  const auto after = static_cast<std::int32_t>(value.digits.size()) - value.weight - 1;  // of base 10000
  return value.digits.empty() || after <= 0 ? 0
                                            : (after - 1) * kDigitsOfOne + UsedPlaces(value.digits.back());
}

std::optional<NumericValue> Special(NumericValue::Kind kind, std::int32_t digits) {
  if (digits != 0) return std::nullopt;
  NumericValue value;
  value.kind = kind;
  return value;
}

// As many powers of ten divide it; of a number that is not 0.
std::int32_t ZerosBeforePoint(const NumericValue& value) {
  const std::int32_t last = value.weight + 1 - static_cast<std::int32_t>(value.digits.size());  // its weight
  return last * kDigitsOfOne + kDigitsOfOne - UsedPlaces(value.digits.back());
}

}  // namespace

std::optional<NumericValue> DecodeNumeric(std::string_view bytes) {
  if (bytes.size() < kHeader) return std::nullopt;
  const auto at = [&](std::size_t place) { return *ReadInt16(bytes.substr(place, 2)); };
  const std::int32_t count = at(0);
  if (count < 0 || bytes.size() != kHeader + 2 * static_cast<std::size_t>(count)) return std::nullopt;
  NumericValue value;
  value.weight = at(2);
  value.scale = at(6);
  switch (static_cast<std::uint16_t>(at(4))) {
    case 0x0000:
      break;
    case 0x4000:
      value.negative = true;
      break;
    case 0xC000:
      return Special(NumericValue::Kind::kNaN, count);
    case 0xD000:
      return Special(NumericValue::Kind::kInfinity, count);
    case 0xF000:
      return Special(NumericValue::Kind::kNegativeInfinity, count);
    default:
      return std::nullopt;
  }
  if (value.scale < 0 || value.scale > kScaleMax) return std::nullopt;
  for (std::int32_t i = 0; i < count; ++i) {
    const std::int16_t digit = at(kHeader + 2 * static_cast<std::size_t>(i));
    if (digit < 0 || digit >= kTens[kDigitsOfOne]) return std::nullopt;
    value.digits.push_back(digit);
  }
  if (count == 0) return value.negative || value.weight != 0 ? std::nullopt : std::optional(value);
  if (value.digits.front() == 0 || value.digits.back() == 0) return std::nullopt;
  return NeededScale(value) > value.scale ? std::nullopt : std::optional(value);
}

bool AreEqual(const NumericValue& a, const NumericValue& b) {
  return a.kind == b.kind && a.negative == b.negative && a.weight == b.weight && a.digits == b.digits;
}

bool IsTrimmed(const NumericValue& value) {
  return value.kind != NumericValue::Kind::kFinite || value.scale == NeededScale(value);
}

bool FitsModifier(const NumericValue& value, std::int32_t modifier) {
  if (modifier < kModifierOffset) return true;
  if (value.kind != NumericValue::Kind::kFinite) return value.kind == NumericValue::Kind::kNaN;
  const std::int32_t precision = ((modifier - kModifierOffset) >> 16) & 0xFFFF;
  const std::int32_t scale = (((modifier - kModifierOffset) & 0x7FF) ^ 0x400) - 0x400;  // 11 bits, signed
  if (value.digits.empty()) return true;
  if (ZerosBeforePoint(value) < -scale) return false;       // would be rounded
  std::int32_t before = (value.weight + 1) * kDigitsOfOne;  // the point, in base 10
  for (std::int32_t ten = kDigitsOfOne - 1; ten > 0 && value.digits.front() < kTens[ten]; --ten) --before;
  return before <= precision - scale;
}

}  // namespace psp
