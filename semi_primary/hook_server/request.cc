#include "semi_primary/hook_server/request.h"

#include <algorithm>
#include <string>

#include "common/hex.h"
#include "common/parse_number.h"
#include "semi_primary/hook_server/message_statements.h"
#include "semi_primary/hook_server/proof.h"
#include "writeset/snapshot_text.h"

namespace psp::sp {
namespace {

// Takes the next word and the one space after it.
std::string_view TakeWord(std::string_view* text) {
  const std::size_t end = text->find(' ');
  const std::string_view word = text->substr(0, end);
  text->remove_prefix(end == std::string_view::npos ? text->size() : end + 1);
  return word;
}

UserError WrongProof() {
  return {"28P01", "psp: the request's proof is wrong", "",
          "Only psp's own functions may commit. The token stands in psp.identity of the daemon's database."};
}

struct ProvenBytes {
  std::string bytes;
  std::string answer_proof;
};

// The bytes of the last word, if they are proved.
Result<ProvenBytes, UserError> TakeProvenBytes(std::string_view rest, std::string_view token,
                                               std::string_view head, std::size_t bytes_max) {
  const std::string_view proof = TakeWord(&rest);
  const std::string_view hex = TakeWord(&rest);
  if (!rest.empty()) return MalformedRequest("words after the bytes");
  if (hex.size() / 2 > bytes_max) return WriteSetTooLarge(hex.size() / 2, bytes_max);
  auto bytes = DecodeHex(hex);
  if (!bytes) return MalformedRequest("the bytes are not hexadecimal");
  Proofs proofs = ProofsOf(token, std::string(head) + Sha256(*bytes));
  if (!EqualInConstantTime(proof, proofs.request)) return WrongProof();
  return ProvenBytes{std::move(*bytes), std::move(proofs.answer)};
}

Result<HookRequest, UserError> ParseCommit(std::string_view rest, std::string_view token,
                                           std::size_t write_set_bytes_max) {
  const std::string_view all = rest;
  CommitRequest request;
  const auto tx_id = TxId::FromText(TakeWord(&rest));
  if (!tx_id) return MalformedRequest("the tx id is no uuid");
  const auto catalog_version = ParseNumber<std::uint32_t>(TakeWord(&rest));
  if (!catalog_version || *catalog_version == 0) return MalformedRequest("the catalog version is no number");
  const std::string_view watermark = TakeWord(&rest);
  const std::string_view seen = TakeWord(&rest);
  const auto snapshot = ParseSnapshot(watermark, seen);
  if (!snapshot) return MalformedRequest("the snapshot is no watermark with what was seen above it");
  const std::string_view head = all.substr(0, all.size() - rest.size() - 1);
  auto proven = TakeProvenBytes(rest, token, head, write_set_bytes_max);
  if (!proven) return proven.error();
  auto assembled = AssembleWriteSet(proven->bytes);
  if (!assembled) return MalformedRequest("the write-set: " + assembled.error());
  request.tx_id = *tx_id;
  request.watermark = snapshot->watermark();
  request.seen.assign(snapshot->seen().begin(), snapshot->seen().end());
  request.assembled = std::move(*assembled);
  request.assembled.write_set.set_catalog_version(*catalog_version);
  request.write_set_bytes = proven->bytes.size();
  request.answer_proof = std::move(proven->answer_proof);
  return HookRequest(std::move(request));
}

Result<HookRequest, UserError> ParseRows(std::string_view rest, std::string_view token,
                                         std::size_t write_set_bytes_max) {
  const std::string_view id = TakeWord(&rest);
  const auto tx_id = TxId::FromText(id);
  if (!tx_id) return MalformedRequest("the tx id is no uuid");
  auto found = TakeProvenBytes(rest, token, "rows " + std::string(id) + " ", write_set_bytes_max);
  if (!found) return found.error();
  return HookRequest(RowsRequest{*tx_id, std::move(found->bytes)});
}

Result<HookRequest, UserError> ParseSegment(std::string_view rest, std::string_view token,
                                            std::size_t write_set_bytes_max) {
  const auto chunks = TakeProvenBytes(rest, token, "segment ", write_set_bytes_max);
  if (!chunks) return chunks.error();
  auto assembled = AssembleWriteSet(chunks->bytes);
  if (!assembled) return MalformedRequest("the segment: " + assembled.error());
  return HookRequest(SegmentRequest{std::move(*assembled), Sha256(chunks->bytes)});
}

Result<HookRequest, UserError> ParseStatements(std::string_view rest, std::string_view token,
                                               std::size_t write_set_bytes_max) {
  const std::string role(TakeWord(&rest));
  auto message = TakeProvenBytes(rest, token, "statements " + role + " ", write_set_bytes_max);
  if (!message) return message.error();
  if (!ParseNumber<std::uint32_t>(role)) return MalformedRequest("the role is no number");
  if (message->bytes.find('\0') != std::string::npos) return MalformedRequest("a message with a zero byte");
  const auto statements = StatementsOf(message->bytes);
  if (!statements) return statements.error();
  return HookRequest(StatementsRequest{DescribeStatements(*statements), role, Sha256(message->bytes)});
}

Result<HookRequest, UserError> ParseHold(std::string_view rest, std::string_view token,
                                         std::size_t write_set_bytes_max) {
  const auto text = TakeProvenBytes(rest, token, "hold ", write_set_bytes_max);
  if (!text) return text.error();
  std::string_view words = text->bytes;
  const auto transaction = ParseNumber<std::uint64_t>(TakeWord(&words));
  const auto timeout_ms = ParseNumber<std::uint32_t>(TakeWord(&words));
  auto table_ids = ParseNumbers<std::uint32_t>(words);
  if (!transaction || !timeout_ms || !table_ids)
    return MalformedRequest("no transaction, time or tables to hold");
  return HookRequest(HookHoldRequest{*transaction, *timeout_ms, std::move(*table_ids), Sha256(text->bytes)});
}

Result<HookRequest, UserError> ParseOutcome(std::string_view rest, std::string_view token) {
  const std::string_view id = TakeWord(&rest);
  const auto tx_id = TxId::FromText(id);
  if (!tx_id) return MalformedRequest("the tx id is no uuid");
  const std::string_view role_word = TakeWord(&rest);
  const auto role = ParseNumber<std::uint32_t>(role_word);
  if (!role) return MalformedRequest("the role is no number");
  if (!EqualInConstantTime(rest, Proof(token, "outcome " + std::string(id) + " " + std::string(role_word))))
    return WrongProof();
  return HookRequest(HookOutcomeRequest{*tx_id, *role});
}

// `TABLE_ID:QUERY_ID,…`
std::optional<std::vector<WrittenBy>> ParseStatementsOfALoser(std::string_view text) {
  std::vector<WrittenBy> statements;
  for (bool is_last = false; !is_last;) {
    const std::size_t end = text.find(',');
    const std::string_view pair = text.substr(0, end);
    is_last = end == std::string_view::npos;
    text.remove_prefix(is_last ? text.size() : end + 1);
    const std::size_t colon = std::min(pair.find(':'), pair.size());
    const auto table_id = ParseNumber<std::uint32_t>(pair.substr(0, colon));
    const auto query_id = ParseNumber<std::uint64_t>(pair.substr(std::min(colon + 1, pair.size())));
    if (!table_id || !query_id || statements.size() == kStatementsOfALoserMax) return std::nullopt;
    statements.push_back({*table_id, static_cast<std::int64_t>(*query_id)});
  }
  return statements;
}

Result<HookRequest, UserError> ParseLost(std::string_view rest, std::string_view token) {
  const std::string_view id = TakeWord(&rest);
  const std::string_view list = TakeWord(&rest);
  const auto tx_id = TxId::FromText(id);
  if (!tx_id) return MalformedRequest("the tx id is no uuid");
  const std::string proof = Proof(token, "lost " + std::string(id) + " " + std::string(list));
  if (!EqualInConstantTime(rest, proof)) return WrongProof();
  auto statements = ParseStatementsOfALoser(list);
  if (!statements) return MalformedRequest("no tables and statements");
  return HookRequest(HookLostRequest{{*tx_id, std::move(*statements)}});
}

Result<HookRequest, UserError> ParseReach(std::string_view rest) {
  const auto global_t = ParseNumber<GlobalT>(rest);
  if (!global_t || *global_t < 0) return MalformedRequest("no number to reach");
  return HookRequest(HookReachRequest{*global_t});
}

bool IsSet(std::string_view word) {
  return word.size() == 3 && (word[0] | 0x20) == 's' && (word[1] | 0x20) == 'e' && (word[2] | 0x20) == 't';
}

}  // namespace

std::optional<std::uint32_t> AskingRole(std::string_view line) {
  if (TakeWord(&line) != "statements") return std::nullopt;
  return ParseNumber<std::uint32_t>(TakeWord(&line));
}

UserError MalformedRequest(const std::string& what) {
  return {"08P01", "psp: malformed request: " + what, "",
          "The psp schema and the daemon must be of one version."};
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
  if (name == "commit") return ParseCommit(line, token, write_set_bytes_max);
  if (name == "rows") return ParseRows(line, token, write_set_bytes_max);
  if (name == "segment") return ParseSegment(line, token, write_set_bytes_max);
  if (name == "statements") return ParseStatements(line, token, write_set_bytes_max);
  if (name == "hold") return ParseHold(line, token, write_set_bytes_max);
  if (name == "outcome") return ParseOutcome(line, token);
  if (name == "lost") return ParseLost(line, token);
  if (name == "reach") return ParseReach(line);
  if (name == "ping" && line.empty()) return HookRequest(PingRequest{});
  if (name == "doubts") {
    const auto tx_id = TxId::FromText(line);
    return tx_id ? Result<HookRequest, UserError>(DoubtsRequest{*tx_id})
                 : MalformedRequest("the tx id is no uuid");
  }
  return UserError{
      "0A000", "this is the psp commit hook's server, not a database",
      "It knows the requests commit, doubts, rows, segment, statements, hold, outcome, lost, reach and ping.",
      ""};
}

}  // namespace psp::sp
