#include "semi_primary/commit_hook/request.h"

#include <charconv>
#include <optional>
#include <string>

#include "semi_primary/commit_hook/assemble.h"
#include "semi_primary/commit_hook/hex.h"

namespace psp {
namespace {

// Takes the next word and the one space after it.
std::string_view TakeWord(std::string_view* text) {
  const std::size_t end = text->find(' ');
  const std::string_view word = text->substr(0, end);
  text->remove_prefix(end == std::string_view::npos ? text->size() : end + 1);
  return word;
}

template <class T>
std::optional<T> ParseNumber(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

// Nothing unless ascending and all above the watermark.
std::optional<std::vector<GlobalT>> ParseSeen(std::string_view text, GlobalT watermark) {
  std::vector<GlobalT> seen;
  if (text == "-") return seen;
  GlobalT previous = watermark;
  while (true) {
    const std::size_t comma = text.find(',');
    const auto value = ParseNumber<GlobalT>(text.substr(0, comma));
    if (!value || *value <= previous) return std::nullopt;
    seen.push_back(*value);
    previous = *value;
    if (comma == std::string_view::npos) return seen;
    text.remove_prefix(comma + 1);
  }
}

UserError Malformed(std::string what) {
  return {"08P01", "psp: malformed request: " + std::move(what), "",
          "The psp schema and the daemon must be of one version."};
}

Result<HookRequest, UserError> ParseCommit(std::string_view rest, std::size_t write_set_bytes_max) {
  CommitRequest request;
  const auto tx_id = TxId::FromText(TakeWord(&rest));
  if (!tx_id) return Malformed("the tx id is no uuid");
  const auto watermark = ParseNumber<GlobalT>(TakeWord(&rest));
  if (!watermark) return Malformed("the watermark is no number");
  auto seen = ParseSeen(TakeWord(&rest), *watermark);
  if (!seen) return Malformed("the seen list is not ascending above the watermark");
  const std::string_view hex = TakeWord(&rest);
  if (!rest.empty()) return Malformed("words after the write-set");
  if (hex.size() / 2 > write_set_bytes_max) return WriteSetTooLarge(hex.size() / 2, write_set_bytes_max);
  const auto bytes = DecodeHex(hex);
  if (!bytes) return Malformed("the write-set is not hexadecimal");
  auto write_set = AssembleWriteSet(*bytes);
  if (!write_set) return Malformed("the write-set: " + write_set.error());
  request.tx_id = *tx_id;
  request.watermark = *watermark;
  request.seen = std::move(*seen);
  request.write_set = std::make_shared<const proto::WriteSet>(std::move(*write_set));
  request.write_set_bytes = bytes->size();
  return HookRequest(std::move(request));
}

bool IsSet(std::string_view word) {
  return word.size() == 3 && (word[0] | 0x20) == 's' && (word[1] | 0x20) == 'e' && (word[2] | 0x20) == 't';
}

}  // namespace

bool EqualInConstantTime(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const char other = b.empty() ? '\0' : b[i % b.size()];
    difference |= static_cast<unsigned char>(a[i] ^ other);
  }
  return difference == 0;
}

UserError WriteSetTooLarge(std::size_t bytes, std::size_t write_set_bytes_max) {
  return {
      "54000", "the transaction's write-set is too large",
      "It has " + std::to_string(bytes) + " bytes, the limit is " + std::to_string(write_set_bytes_max) + ".",
      "Split the transaction, or raise write_set_bytes_max of the semi-primary and of the primary."};
}

Result<HookRequest, UserError> ParseRequest(std::string_view line, std::string_view token,
                                            std::size_t write_set_bytes_max) {
  const std::string_view name = TakeWord(&line);
  if (name.empty() && line.empty()) return HookRequest(EmptyRequest{});
  if (IsSet(name)) return HookRequest(SetRequest{});
  if (name != "commit" && name != "outcome" && name != "ping") {
    return UserError{"0A000", "this is the psp commit hook's server, not a database",
                     "It knows the requests commit, outcome and ping.", ""};
  }
  if (!EqualInConstantTime(TakeWord(&line), token)) {
    return UserError{"28P01", "the token is wrong", "",
                     "The token stands in psp.identity of the daemon's database."};
  }
  if (name == "commit") return ParseCommit(line, write_set_bytes_max);
  if (name == "ping")
    return line.empty() ? Result<HookRequest, UserError>(HookRequest(PingRequest{}))
                        : Malformed("words after ping");
  const auto tx_id = TxId::FromText(line);
  if (!tx_id) return Malformed("the tx id is no uuid");
  return HookRequest(OutcomeRequest{*tx_id});
}

}  // namespace psp
