// PostgreSQL's binary formats: arrays as statement parameters, and rows as record_send writes them.
// Pure; usable from any thread. Malformed input gives an error, never undefined behaviour.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/ids.h"

namespace psp {

// Type oids of PostgreSQL's own types, which are the same everywhere.
inline constexpr std::uint32_t kOidBool = 16;
inline constexpr std::uint32_t kOidBytea = 17;
inline constexpr std::uint32_t kOidChar = 18;  // "char", one byte
inline constexpr std::uint32_t kOidName = 19;
inline constexpr std::uint32_t kOidInt8 = 20;
inline constexpr std::uint32_t kOidInt2 = 21;
inline constexpr std::uint32_t kOidInt4 = 23;
inline constexpr std::uint32_t kOidText = 25;
inline constexpr std::uint32_t kOidOid = 26;
inline constexpr std::uint32_t kOidCid = 29;  // a command's number in its transaction
inline constexpr std::uint32_t kOidFloat4 = 700;
inline constexpr std::uint32_t kOidFloat8 = 701;
inline constexpr std::uint32_t kOidTextArray = 1009;
inline constexpr std::uint32_t kOidInt8Array = 1016;
inline constexpr std::uint32_t kOidBpchar = 1042;
inline constexpr std::uint32_t kOidVarchar = 1043;
inline constexpr std::uint32_t kOidDate = 1082;
inline constexpr std::uint32_t kOidTimestamp = 1114;
inline constexpr std::uint32_t kOidTimestamptz = 1184;
inline constexpr std::uint32_t kOidNumeric = 1700;
inline constexpr std::uint32_t kOidUuid = 2950;

// Appends big-endian integers, as PostgreSQL's send functions do.
void AppendInt16(std::string* out, std::int16_t value);
void AppendInt32(std::string* out, std::int32_t value);
void AppendInt64(std::string* out, std::int64_t value);

// Reads them; nothing unless `bytes` has exactly the size.
std::optional<std::int16_t> ReadInt16(std::string_view bytes);
std::optional<std::int32_t> ReadInt32(std::string_view bytes);
std::optional<std::int64_t> ReadInt64(std::string_view bytes);

// Builds one one-dimensional array, element by element. Pass the result as a binary parameter
// (psp::Binary in common/pg_session.h) of the element type's array type.
class ArrayWriter {
 public:
  // `element_oid` must be the server's oid of the element type; `reserve_bytes` is only a hint.
  explicit ArrayWriter(std::uint32_t element_oid, std::size_t reserve_bytes = 0);

  // The element in its type's binary form, copied as it is.
  void Add(std::string_view bytes);
  void Add(std::optional<std::string_view> bytes);
  void AddNull();
  void AddInt2(std::int16_t value);
  void AddInt4(std::int32_t value);
  void AddInt8(std::int64_t value);
  void AddBool(bool value);
  void AddUuid(const TxId& id) { Add(id.View()); }

  std::size_t size() const { return static_cast<std::size_t>(count_); }
  std::size_t size_bytes() const { return buffer_.size(); }

  // The finished array; the writer is empty (and of the same type) afterwards.
  std::string Finish();

 private:
  void Reset();

  const std::uint32_t element_oid_;
  std::int32_t count_ = 0;
  bool has_null_ = false;
  std::string buffer_;
};

struct RecordField {
  std::uint32_t type_oid = 0;
  std::optional<std::string_view> value;  // nothing: NULL. Points into the decoded input.

  friend bool operator==(const RecordField&, const RecordField&) = default;
};

// Decodes one record_send row from the front of `*input` and removes it from there, so that concatenated rows
// are read by calling it until the input is empty. `fields` is overwritten. Returns an empty string, or what
// is wrong with the input (then `*input` is unchanged and `fields` unspecified).
[[nodiscard]] std::string DecodeRecord(std::string_view* input, std::vector<RecordField>* fields);

// The opposite: appends record_send of the fields.
void AppendRecord(std::string* out, const std::vector<RecordField>& fields);

// The bytes of a bytea that PostgreSQL sent as text (\x…); nothing if it is no such text.
std::optional<std::string> DecodeByteaText(std::string_view text);

}  // namespace psp
