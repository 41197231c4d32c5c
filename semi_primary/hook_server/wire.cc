#include "semi_primary/hook_server/wire.h"

#include "common/pg_binary.h"

namespace psp::sp::wire {
namespace {

// Writes the message's type and, when it goes out of scope, its length.
class Message {
 public:
  Message(std::string* out, char type) : out_(out) {
    out_->push_back(type);
    begin_ = out_->size();
    out_->append(kLengthBytes, '\0');
  }
  ~Message() {
    const auto length = static_cast<std::uint32_t>(out_->size() - begin_);
    for (std::size_t i = 0; i < kLengthBytes; ++i) {
      (*out_)[begin_ + i] = static_cast<char>(length >> (8 * (kLengthBytes - 1 - i)));
    }
  }
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;

  void Text(std::string_view text) { out_->append(text).push_back('\0'); }

 private:
  std::string* out_;
  std::size_t begin_ = 0;
};

void AppendField(std::string* out, char type, std::string_view text) {
  if (text.empty()) return;
  out->push_back(type);
  out->append(text).push_back('\0');
}

}  // namespace

std::uint32_t LoadUint32(std::string_view bytes) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<std::uint8_t>(bytes[i]);
  return value;
}

void AppendAskPassword(std::string* out) {
  const Message message(out, 'R');
  AppendInt32(out, 3);
}

void AppendAuthenticationOk(std::string* out) {
  const Message message(out, 'R');
  AppendInt32(out, 0);
}

void AppendParameterStatus(std::string* out, std::string_view name, std::string_view value) {
  Message message(out, 'S');
  message.Text(name);
  message.Text(value);
}

void AppendReadyForQuery(std::string* out) {
  const Message message(out, 'Z');
  out->push_back('I');
}

void AppendCommandComplete(std::string* out, std::string_view tag) {
  Message message(out, 'C');
  message.Text(tag);
}

void AppendEmptyQueryResponse(std::string* out) { const Message message(out, 'I'); }

void AppendError(std::string* out, std::string_view severity, const UserError& error) {
  const Message message(out, 'E');
  AppendField(out, 'S', severity);
  AppendField(out, 'V', severity);
  AppendField(out, 'C', error.sqlstate);
  AppendField(out, 'M', error.message);
  AppendField(out, 'D', error.detail);
  AppendField(out, 'H', error.hint);
  out->push_back('\0');
}

void AppendOneText(std::string* out, std::string_view column, std::string_view value) {
  {
    Message description(out, 'T');
    AppendInt16(out, 1);
    description.Text(column);
    AppendInt32(out, 0);  // no table
    AppendInt16(out, 0);  // no column of one
    AppendInt32(out, static_cast<std::int32_t>(kOidText));
    AppendInt16(out, -1);  // of variable length
    AppendInt32(out, -1);  // no type modifier
    AppendInt16(out, 0);   // text format
  }
  {
    const Message row(out, 'D');
    AppendInt16(out, 1);
    AppendInt32(out, static_cast<std::int32_t>(value.size()));
    out->append(value);
  }
  AppendCommandComplete(out, "SELECT 1");
}

}  // namespace psp::sp::wire
