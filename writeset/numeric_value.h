// PostgreSQL's binary form of numeric. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace psp {

struct NumericValue {
  enum class Kind : std::uint8_t { kNegativeInfinity, kFinite, kInfinity, kNaN };
  Kind kind = Kind::kFinite;
  bool negative = false;
  std::int32_t weight = 0;           // of the first digit
  std::int32_t scale = 0;            // digits after the point, in base 10
  std::vector<std::int16_t> digits;  // of base 10000; the first and the last one are not 0
};

// Nothing: numeric_recv would refuse it, or make another value of it.
std::optional<NumericValue> DecodeNumeric(std::string_view bytes);

// As PostgreSQL compares; the scale does not count.
bool AreEqual(const NumericValue& a, const NumericValue& b);

// As trim_scale leaves it.
bool IsTrimmed(const NumericValue& value);

// Whether numeric(precision, scale) takes it without rounding; `modifier`: atttypmod, -1: none.
bool FitsModifier(const NumericValue& value, std::int32_t modifier);

}  // namespace psp
