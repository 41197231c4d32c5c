#include "common/pg_binary.h"

#include <cstring>

#include "common/hex.h"

namespace psp {
namespace {

constexpr std::size_t kArrayHeaderBytes = 20;
constexpr std::int32_t kFieldsMax = 1664;  // PostgreSQL's own limit of a row

template <class T>
void AppendBigEndian(std::string* out, T value) {
  char bytes[sizeof(T)];
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    bytes[i] = static_cast<char>(static_cast<std::make_unsigned_t<T>>(value) >> (8 * (sizeof(T) - 1 - i)));
  }
  out->append(bytes, sizeof(T));
}

template <class T>
T LoadBigEndian(const char* from) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) value = value << 8 | static_cast<std::uint8_t>(from[i]);
  return static_cast<T>(value);
}

template <class T>
std::optional<T> ReadExactly(std::string_view bytes) {
  if (bytes.size() != sizeof(T)) return std::nullopt;
  return LoadBigEndian<T>(bytes.data());
}

// Takes a big-endian int32 from the front; false if there are too few bytes.
bool TakeInt32(std::string_view* input, std::int32_t* value) {
  if (input->size() < 4) return false;
  *value = LoadBigEndian<std::int32_t>(input->data());
  input->remove_prefix(4);
  return true;
}

void PatchInt32(std::string* buffer, std::size_t at, std::int32_t value) {
  std::string bytes;
  AppendInt32(&bytes, value);
  std::memcpy(buffer->data() + at, bytes.data(), 4);
}

}  // namespace

void AppendInt16(std::string* out, std::int16_t value) { AppendBigEndian(out, value); }
void AppendInt32(std::string* out, std::int32_t value) { AppendBigEndian(out, value); }
void AppendInt64(std::string* out, std::int64_t value) { AppendBigEndian(out, value); }

std::optional<std::int16_t> ReadInt16(std::string_view bytes) { return ReadExactly<std::int16_t>(bytes); }
std::optional<std::int32_t> ReadInt32(std::string_view bytes) { return ReadExactly<std::int32_t>(bytes); }
std::optional<std::int64_t> ReadInt64(std::string_view bytes) { return ReadExactly<std::int64_t>(bytes); }

ArrayWriter::ArrayWriter(std::uint32_t element_oid, std::size_t reserve_bytes) : element_oid_(element_oid) {
  buffer_.reserve(kArrayHeaderBytes + reserve_bytes);
  Reset();
}

void ArrayWriter::Reset() {
  buffer_.assign(kArrayHeaderBytes, '\0');
  count_ = 0;
  has_null_ = false;
}

void ArrayWriter::Add(std::string_view bytes) {
  AppendInt32(&buffer_, static_cast<std::int32_t>(bytes.size()));
  buffer_.append(bytes);
  ++count_;
}

void ArrayWriter::Add(std::optional<std::string_view> bytes) {
  if (bytes) {
    Add(*bytes);
  } else {
    AddNull();
  }
}

void ArrayWriter::AddNull() {
  AppendInt32(&buffer_, -1);
  has_null_ = true;
  ++count_;
}

void ArrayWriter::AddInt2(std::int16_t value) {
  AppendInt32(&buffer_, 2);
  AppendInt16(&buffer_, value);
  ++count_;
}

void ArrayWriter::AddInt4(std::int32_t value) {
  AppendInt32(&buffer_, 4);
  AppendInt32(&buffer_, value);
  ++count_;
}

void ArrayWriter::AddInt8(std::int64_t value) {
  AppendInt32(&buffer_, 8);
  AppendInt64(&buffer_, value);
  ++count_;
}

void ArrayWriter::AddBool(bool value) {
  AppendInt32(&buffer_, 1);
  buffer_.push_back(value ? '\1' : '\0');
  ++count_;
}

std::string ArrayWriter::Finish() {
  // ndim, has-null flag, element type, then for the one dimension its size and lower bound. An array without
  // elements has no dimension.
  PatchInt32(&buffer_, 0, count_ > 0 ? 1 : 0);
  PatchInt32(&buffer_, 4, has_null_ ? 1 : 0);
  PatchInt32(&buffer_, 8, static_cast<std::int32_t>(element_oid_));
  PatchInt32(&buffer_, 12, count_);
  PatchInt32(&buffer_, 16, 1);
  if (count_ == 0) buffer_.resize(12);
  std::string finished = std::move(buffer_);
  Reset();
  return finished;
}

std::string DecodeRecord(std::string_view* input, std::vector<RecordField>* fields) {
  std::string_view rest = *input;
  std::int32_t field_count = 0;
  if (!TakeInt32(&rest, &field_count)) return "row is shorter than its field count";
  if (field_count < 0 || field_count > kFieldsMax) return "row has an impossible number of fields";
  fields->clear();
  fields->reserve(static_cast<std::size_t>(field_count));
  for (std::int32_t i = 0; i < field_count; ++i) {
    std::int32_t type_oid = 0;
    std::int32_t size_bytes = 0;
    if (!TakeInt32(&rest, &type_oid) || !TakeInt32(&rest, &size_bytes))
      return "row ends inside a field's header";
    RecordField field{static_cast<std::uint32_t>(type_oid), std::nullopt};
    if (size_bytes >= 0) {
      if (static_cast<std::size_t>(size_bytes) > rest.size()) return "row ends inside a field's value";
      field.value = rest.substr(0, static_cast<std::size_t>(size_bytes));
      rest.remove_prefix(static_cast<std::size_t>(size_bytes));
    } else if (size_bytes != -1) {
      return "row has a field of negative size";
    }
    fields->push_back(field);
  }
  *input = rest;
  return {};
}

void AppendRecord(std::string* out, const std::vector<RecordField>& fields) {
  AppendInt32(out, static_cast<std::int32_t>(fields.size()));
  for (const RecordField& field : fields) {
    AppendInt32(out, static_cast<std::int32_t>(field.type_oid));
    AppendInt32(out, field.value ? static_cast<std::int32_t>(field.value->size()) : -1);
    if (field.value) out->append(*field.value);
  }
}

std::optional<std::string> DecodeByteaText(std::string_view text) {
  if (!text.starts_with("\\x")) return std::nullopt;
  return DecodeHex(text.substr(2));
}

}  // namespace psp
