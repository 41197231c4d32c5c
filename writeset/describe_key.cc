#include "writeset/describe_key.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>

#include "common/hex.h"
#include "common/ids.h"
#include "common/pg_binary.h"
#include "writeset/numeric_value.h"

namespace psp {
namespace {

constexpr std::uint32_t kFirstUserOid = 16384;
constexpr std::int64_t kPostgresEpochDays = 10957;  // 2000-01-01, counted from 1970-01-01
constexpr std::int64_t kDayUs = 86'400'000'000;
constexpr std::size_t kShownBytesMax = 100;

std::string Hex(std::string_view bytes) {
  const std::string out = "\\x" + EncodeHex(bytes.substr(0, kShownBytesMax));
  return bytes.size() > kShownBytesMax ? out + "..." : out;
}

std::string Text(std::string_view bytes) {
  const bool printable = std::none_of(
      bytes.begin(), bytes.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
  if (!printable) return Hex(bytes);
  if (bytes.size() <= kShownBytesMax) return std::string(bytes);
  std::size_t end = kShownBytesMax;  // not inside a UTF-8 character
  while (end > 0 && (static_cast<unsigned char>(bytes[end]) & 0xC0) == 0x80) --end;
  return std::string(bytes.substr(0, end)) + "...";
}

std::string Date(std::int64_t days) {
  if (days == INT32_MAX) return "infinity";
  if (days == INT32_MIN) return "-infinity";
  const std::chrono::sys_days day{std::chrono::days(days + kPostgresEpochDays)};
  const std::chrono::year_month_day date{day};
  char text[32];
  std::snprintf(text, sizeof text, "%04d-%02u-%02u", static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()));
  return text;
}

std::string Timestamp(std::int64_t us, const char* zone) {
  if (us == INT64_MAX) return "infinity";
  if (us == INT64_MIN) return "-infinity";
  std::int64_t days = us / kDayUs;
  std::int64_t rest = us % kDayUs;
  if (rest < 0) {
    rest += kDayUs;
    --days;
  }
  const int seconds = static_cast<int>(rest / 1'000'000);
  char text[32];
  std::snprintf(text, sizeof text, " %02d:%02d:%02d.%06d", seconds / 3600, seconds / 60 % 60, seconds % 60,
                static_cast<int>(rest % 1'000'000));
  std::string time = text;
  while (time.back() == '0') time.pop_back();
  if (time.back() == '.') time.pop_back();
  return Date(days) + time + zone;
}

std::string Numeric(std::string_view bytes) {
  const auto value = DecodeNumeric(bytes);
  if (!value) return Hex(bytes);
  switch (value->kind) {
    case NumericValue::Kind::kNaN:
      return "NaN";
    case NumericValue::Kind::kInfinity:
      return "Infinity";
    case NumericValue::Kind::kNegativeInfinity:
      return "-Infinity";
    case NumericValue::Kind::kFinite:
      break;
  }
  if (value->weight > 40 || value->weight < -40 || value->scale > 160) return Hex(bytes);
  const auto group = [&](int position) {  // the four digits of weight `position`
    char text[8];
    const auto index = static_cast<std::size_t>(value->weight - position);
    const bool is_given = position <= value->weight && index < value->digits.size();
    std::snprintf(text, sizeof text, "%04d", is_given ? value->digits[index] : 0);
    return std::string(text);
  };
  std::string whole;
  for (int position = std::max(value->weight, 0); position >= 0; --position) whole += group(position);
  whole.erase(0, std::min(whole.find_first_not_of('0'), whole.size() - 1));
  std::string fraction;
  for (int position = -1; static_cast<int>(fraction.size()) < value->scale; --position)
    fraction += group(position);
  fraction.resize(static_cast<std::size_t>(value->scale));
  return (value->negative ? "-" : "") + whole + (fraction.empty() ? "" : "." + fraction);
}

std::string Uuid(std::string_view bytes) {
  const auto id = TxId::FromBytes(bytes);
  return id ? id->ToText() : Hex(bytes);
}

template <class T, class Show>
std::string Number(std::optional<T> value, std::string_view bytes, Show show) {
  return value ? show(*value) : Hex(bytes);
}

std::string Value(const RecordField& field) {
  if (!field.value) return "null";
  const std::string_view bytes = *field.value;
  const auto plain = [](auto number) { return std::to_string(number); };
  switch (field.type_oid) {
    case kOidBool:
      return bytes == std::string_view("\1", 1) ? "t" : "f";
    case kOidInt2:
      return Number(ReadInt16(bytes), bytes, plain);
    case kOidInt4:
      return Number(ReadInt32(bytes), bytes, plain);
    case kOidInt8:
      return Number(ReadInt64(bytes), bytes, plain);
    case kOidUuid:
      return Uuid(bytes);
    case kOidDate:
      return Number(ReadInt32(bytes), bytes, Date);
    case kOidTimestamp:
      return Number(ReadInt64(bytes), bytes, [](std::int64_t us) { return Timestamp(us, ""); });
    case kOidTimestamptz:
      return Number(ReadInt64(bytes), bytes, [](std::int64_t us) { return Timestamp(us, "+00"); });
    case kOidNumeric:
      return Numeric(bytes);
    case kOidText:
    case kOidVarchar:
    case kOidBpchar:
    case kOidName:
    case kOidChar:
      return Text(bytes);
    default:  // an enum's binary form is its label
      return field.type_oid >= kFirstUserOid ? Text(bytes) : Hex(bytes);
  }
}

template <class Items, class Show>
std::string Joined(const Items& items, Show show) {
  std::string out;
  for (const auto& item : items) out += (out.empty() ? "" : ", ") + show(item);
  return "(" + out + ")";
}

}  // namespace

std::string DescribeKey(const KeyNames& names, std::string_view key) {
  std::vector<RecordField> fields;
  std::string_view rest = key;
  if (!DecodeRecord(&rest, &fields).empty() || !rest.empty()) return "(" + Hex(key) + ")";
  std::string values = Joined(fields, Value);
  if (names.key_columns.size() != fields.size()) return values;
  return Joined(names.key_columns, [](const std::string& name) { return name; }) + "=" + values;
}

}  // namespace psp
