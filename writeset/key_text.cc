#include "writeset/key_text.h"

#include <array>
#include <charconv>
#include <cstdint>
#include <cstring>

#include "common/hex.h"
#include "common/ids.h"
#include "common/pg_binary.h"

namespace psp {
namespace {

constexpr std::int64_t kPostgresEpochJulian = 2451545;  // 2000-01-01
constexpr std::int64_t kDayUs = 86'400'000'000;

using Text = std::optional<std::string>;

template <class T>
Text Plain(std::optional<T> number) {
  return number ? Text(std::to_string(*number)) : std::nullopt;
}

// A Julian day, which PostgreSQL reads as a date in every DateStyle, also before the year 1.
Text Date(std::optional<std::int64_t> days) {
  return days ? Text("J" + std::to_string(*days + kPostgresEpochJulian)) : std::nullopt;
}

Text DateOf(std::optional<std::int32_t> days) {
  if (days == INT32_MAX) return "infinity";
  if (days == INT32_MIN) return "-infinity";
  return days ? Date(*days) : std::nullopt;
}

std::string Digits(std::int64_t number, std::size_t width) {
  std::string digits = std::to_string(number);
  return std::string(width - std::min(width, digits.size()), '0') + digits;
}

Text Timestamp(std::optional<std::int64_t> us, const char* zone) {
  if (us == INT64_MAX) return "infinity";
  if (us == INT64_MIN) return "-infinity";
  if (!us) return std::nullopt;
  const std::int64_t rest = (*us % kDayUs + kDayUs) % kDayUs;
  const std::int64_t seconds = rest / 1'000'000;
  return *Date((*us - rest) / kDayUs) + " " + Digits(seconds / 3600, 2) + ":" + Digits(seconds / 60 % 60, 2) +
         ":" + Digits(seconds % 60, 2) + "." + Digits(rest % 1'000'000, 6) + zone;
}

// Groups of four digits: their number, the weight of the first, sign, shown scale, groups.
Text Numeric(std::string_view bytes) {
  if (bytes.size() < 8 || bytes.size() % 2 != 0) return std::nullopt;
  const auto at = [&](std::size_t i) { return static_cast<int>(*ReadInt16(bytes.substr(2 * i, 2))); };
  const int sign = at(2) & 0xFFFF;
  if (sign == 0xC000) return "NaN";
  if (sign == 0xD000) return "Infinity";
  if (sign == 0xF000) return "-Infinity";
  const auto count = static_cast<std::size_t>(at(0));
  if (bytes.size() != 8 + 2 * count) return std::nullopt;
  std::string text = sign == 0x4000 ? "-0" : "0";
  for (std::size_t i = 0; i < count; ++i) text += Digits(at(4 + i), 4);
  return text + "e" + std::to_string(4 * (at(1) - at(0) + 1));
}

template <class Float, class Bits>
Text Floating(std::optional<Bits> bits) {
  if (!bits) return std::nullopt;
  Float value = 0;
  static_assert(sizeof value == sizeof *bits);
  std::memcpy(&value, &*bits, sizeof value);
  std::array<char, 64> text{};
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value);
  return std::string(text.data(), end);
}

Text TextOf(const RecordField& field) {
  if (!field.value) return std::nullopt;  // a key column is never null
  const std::string_view bytes = *field.value;
  switch (field.type_oid) {
    case kOidBool:
      return bytes == std::string_view("\1", 1) ? "t" : "f";
    case kOidInt2:
      return Plain(ReadInt16(bytes));
    case kOidInt4:
      return Plain(ReadInt32(bytes));
    case kOidInt8:
      return Plain(ReadInt64(bytes));
    case kOidOid: {
      const auto number = ReadInt32(bytes);
      return number ? Text(std::to_string(static_cast<std::uint32_t>(*number))) : std::nullopt;
    }
    case kOidFloat4:
      return Floating<float>(ReadInt32(bytes));
    case kOidFloat8:
      return Floating<double>(ReadInt64(bytes));
    case kOidNumeric:
      return Numeric(bytes);
    case kOidUuid: {
      const auto id = TxId::FromBytes(bytes);
      return id ? Text(id->ToText()) : std::nullopt;
    }
    case kOidBytea:
      return "\\x" + EncodeHex(bytes);
    case kOidDate:
      return DateOf(ReadInt32(bytes));
    case kOidTimestamp:
      return Timestamp(ReadInt64(bytes), "");
    case kOidTimestamptz:
      return Timestamp(ReadInt64(bytes), "+00");
    case kOidText:
    case kOidVarchar:
    case kOidBpchar:
    case kOidName:
      return std::string(bytes);
    default:
      return std::nullopt;
  }
}

}  // namespace

std::vector<Text> KeyTexts(std::string_view key) {
  std::vector<RecordField> fields;
  std::vector<Text> texts;
  if (!DecodeRecord(&key, &fields).empty() || !key.empty()) return texts;
  for (const RecordField& field : fields) texts.push_back(TextOf(field));
  return texts;
}

}  // namespace psp
