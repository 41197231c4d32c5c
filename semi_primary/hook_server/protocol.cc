#include "semi_primary/hook_server/protocol.h"

#include <algorithm>
#include <utility>

#include "common/pg_binary.h"
#include "semi_primary/hook_server/proof.h"
#include "semi_primary/hook_server/wire.h"

namespace psp::sp {
namespace {

constexpr std::size_t kStartupBytesMax = 10000;  // PostgreSQL's own limit
constexpr std::size_t kSmallMessageBytesMax = 16384;
constexpr std::size_t kRequestHeadBytesMax = 65536;  // everything in a commit request but the write-set
constexpr std::size_t kBusyBytesMax = 65536;         // what a client may send while it waits for a reply
constexpr std::size_t kIdleBufferBytes = 4096;
constexpr std::size_t kLongRequestBytes = 65536;  // is read in about a millisecond

UserError Malformed(std::string what) { return {"08P01", "malformed message: " + std::move(what), "", ""}; }

// The text of a body that must be one zero-terminated string.
std::optional<std::string_view> OneString(std::string_view body) {
  if (body.empty() || body.find('\0') != body.size() - 1) return std::nullopt;
  return body.substr(0, body.size() - 1);
}

}  // namespace

void HookProtocol::Feed(std::string_view bytes) {
  if (closed()) return;
  if (discard_bytes_ > 0) {
    const std::size_t dropped = std::min(discard_bytes_, bytes.size());
    bytes.remove_prefix(dropped);
    discard_bytes_ -= dropped;
    if (discard_bytes_ > 0) return;
    EndDiscard();
  }
  input_.append(bytes);
  if (state_ == State::kBusy && input_.size() - consumed_ > kBusyBytesMax) {
    Fail(Malformed("requests must be sent one at a time"));
    return;
  }
  Advance();
}

void HookProtocol::Advance() {
  bool more = true;
  while (more && state_ != State::kClosed && state_ != State::kBusy && discarded_message_ == 0) {
    more = state_ == State::kStartup ? TakeStartup() : TakeMessage();
  }
  if (state_ == State::kClosed) consumed_ = input_.size();
  input_.erase(0, consumed_);
  consumed_ = 0;
  if (input_.empty() && input_.capacity() > kIdleBufferBytes) std::string().swap(input_);
}

bool HookProtocol::TakeStartup() {
  const std::string_view rest = std::string_view(input_).substr(consumed_);
  if (rest.size() < 2 * wire::kLengthBytes) return false;
  const std::size_t length = wire::LoadUint32(rest);
  if (length < 2 * wire::kLengthBytes || length > kStartupBytesMax) {
    Fail(Malformed("the startup packet's length"));
    return false;
  }
  if (rest.size() < length) return false;
  consumed_ += length;
  const std::uint32_t code = wire::LoadUint32(rest.substr(wire::kLengthBytes));
  if (code == wire::kCancelRequest) {
    state_ = State::kClosed;
  } else if (needs_tls_ && code != wire::kGssEncRequest) {
    AnswerTlsRequest(code);
  } else if (code == wire::kSslRequest || code == wire::kGssEncRequest) {
    output_.push_back('N');
  } else if (code >> 16 == wire::kProtocol3 >> 16) {
    wire::AppendAskPassword(&output_);
    state_ = State::kPassword;
  } else {
    Fail(Malformed("an unknown protocol version"));
  }
  return true;
}

void HookProtocol::AnswerTlsRequest(std::uint32_t code) {
  if (code != wire::kSslRequest)
    return Fail({"28000", "this psp semi-primary takes connections with TLS only", "",
                 "psp.identity.hook_conninfo should say sslmode=verify-full or sslmode=require."});
  // What came before TLS has begun, anybody on the way may have put there.
  if (consumed_ < input_.size()) return Fail(Malformed("more bytes behind the request for TLS"));
  output_.push_back('S');
  needs_tls_ = false;
  begins_tls_ = true;
}

bool HookProtocol::TakeTlsBegin() { return std::exchange(begins_tls_, false); }

bool HookProtocol::TakeMessage() {
  const std::string_view rest = std::string_view(input_).substr(consumed_);
  if (rest.size() < wire::kHeaderBytes) return false;
  const char type = rest[0];
  const std::size_t length = wire::LoadUint32(rest.substr(1));
  if (length < wire::kLengthBytes || length > INT32_MAX) {
    Fail(Malformed("a message's length"));
    return false;
  }
  const bool is_query = type == 'Q' && state_ == State::kReady;
  const std::size_t bytes_max =
      is_query ? 2 * options_.write_set_bytes_max + kRequestHeadBytesMax : kSmallMessageBytesMax;
  if (length > bytes_max) {
    if (is_query) {
      BeginDiscard(1 + length);
    } else {
      Fail(Malformed("a message of a wrong type or length"));
    }
    return true;
  }
  if (rest.size() < 1 + length) return false;
  consumed_ += 1 + length;
  const std::string_view body = rest.substr(wire::kHeaderBytes, length - wire::kLengthBytes);
  if (type == 'X') {
    state_ = State::kClosed;
  } else if (state_ == State::kPassword && type == 'p') {
    Login(body);
  } else if (is_query) {
    Query(body);
  } else {
    Fail({"0A000", "only simple queries are understood here", "", ""});
  }
  return true;
}

void HookProtocol::Login(std::string_view body) {
  const auto password = OneString(body);
  if (!password) return Fail(Malformed("the password"));
  const std::size_t at = password->rfind('@');
  const std::string_view database =
      at == std::string_view::npos ? std::string_view() : password->substr(at + 1);
  if (!EqualInConstantTime(password->substr(0, at), Proof(options_.token, "login"))) {
    Fail(
        {"28P01", "the password is wrong", "",
         "Only psp's own functions may connect. The token stands in psp.identity of the daemon's database."});
  } else if (database != options_.database) {
    // A copy, restored from a dump perhaps, has the token and the address of the original's daemon.
    Fail({"28000", "this daemon serves another database than the one that commits", "",
          "If that is a copy of a semi-primary, \"psp schema release\" makes a plain database of it."});
  } else {
    wire::AppendAuthenticationOk(&output_);
    // No DateStyle or IntervalStyle: dblink would copy them into the session that commits.
    wire::AppendParameterStatus(&output_, "server_version", "15.0 (psp)");
    wire::AppendParameterStatus(&output_, "server_encoding", "UTF8");
    wire::AppendParameterStatus(&output_, "client_encoding", "UTF8");
    wire::AppendParameterStatus(&output_, "standard_conforming_strings", "on");
    wire::AppendParameterStatus(&output_, "integer_datetimes", "on");
    Ready();
  }
}

void HookProtocol::Query(std::string_view body) {
  const auto line = OneString(body);
  if (!line) return Fail(Malformed("a query that is not one string"));
  if (line->size() <= kLongRequestBytes && !AskingRole(*line))
    return OnRequest(ParseRequest(*line, options_.token, options_.write_set_bytes_max));
  long_request_ = std::string(*line);
  state_ = State::kBusy;
}

std::optional<std::string> HookProtocol::TakeLongRequest() {
  return std::exchange(long_request_, std::nullopt);
}

void HookProtocol::OnRead(Result<HookRequest, UserError> request) {
  if (state_ != State::kBusy) return;
  OnRequest(std::move(request));
  Advance();
}

void HookProtocol::OnRequest(Result<HookRequest, UserError> request) {
  if (!request) {
    if (request.error().sqlstate == "28P01") return Fail(request.error());
    if (request.error().sqlstate == "08P01") problem_ = request.error().message;
    wire::AppendError(&output_, "ERROR", request.error());
    return Ready();
  }
  if (std::holds_alternative<SetRequest>(*request)) {
    wire::AppendCommandComplete(&output_, "SET");
    return Ready();
  }
  if (const auto* doubts = std::get_if<DoubtsRequest>(&*request)) return Doubts(*doubts);
  if (const auto* rows = std::get_if<RowsRequest>(&*request)) return Rows(*rows);
  doubtful_.reset();
  if (auto* commit = std::get_if<CommitRequest>(&*request)) return Commit(std::move(*commit));
  if (const auto* segment = std::get_if<SegmentRequest>(&*request)) return Segment(*segment);
  if (const auto* statements = std::get_if<StatementsRequest>(&*request)) return Statements(*statements);
  if (const auto* hold = std::get_if<HookHoldRequest>(&*request)) {
    hold_hash_ = hold->hash;
    return Wait(std::move(*request));
  }
  if (std::holds_alternative<HookOutcomeRequest>(*request) ||
      std::holds_alternative<HookLostRequest>(*request) || std::holds_alternative<HookReachRequest>(*request))
    return Wait(std::move(*request));
  if (std::holds_alternative<PingRequest>(*request)) {
    wire::AppendOneText(&output_, "ping", "ok");
  } else {
    wire::AppendEmptyQueryResponse(&output_);
  }
  Ready();
}

void HookProtocol::Wait(HookRequest request) {
  request_ = std::move(request);
  state_ = State::kBusy;
}

void HookProtocol::Commit(CommitRequest request) {
  answer_proof_ = request.answer_proof;
  if (request.assembled.doubts.empty()) return Wait(std::move(request));
  doubtful_ = std::move(request);
  wire::AppendCommandComplete(&output_, "PSP DOUBTS");
  Ready();
}

void HookProtocol::Doubts(const DoubtsRequest& request) {
  if (!doubtful_ || doubtful_->tx_id != request.tx_id) return Fail(Malformed("nothing is in doubt"));
  const std::string lines = DescribeDoubts(doubtful_->assembled);
  const std::string proof = Proof(options_.token, "doubts " + request.tx_id.ToText() + " " + lines);
  wire::AppendOneText(&output_, "doubts", proof + " " + lines);
  Ready();
}

void HookProtocol::Rows(const RowsRequest& request) {
  auto commit = std::exchange(doubtful_, std::nullopt);
  if (!commit || commit->tx_id != request.tx_id) return Fail(Malformed("nothing is in doubt"));
  const auto settled = SettleDoubts(request.found, &commit->assembled);
  if (!settled) return OnRequest(MalformedRequest(settled.error()));
  commit->write_set_bytes += request.found.size();
  if (commit->write_set_bytes > options_.write_set_bytes_max) {
    wire::AppendError(&output_, "ERROR",
                      WriteSetTooLarge(commit->write_set_bytes, options_.write_set_bytes_max));
    return Ready();
  }
  Wait(std::move(*commit));
}

void HookProtocol::Segment(const SegmentRequest& request) {
  const std::string lines = DescribeDoubts(request.assembled);
  const std::string proof = Proof(options_.token, "segment " + lines + " " + request.hash);
  wire::AppendOneText(&output_, "doubts", proof + " " + lines);
  Ready();
}

void HookProtocol::Statements(const StatementsRequest& request) {
  const std::string proof =
      Proof(options_.token, "statements " + request.role + " " + request.lines + " " + request.hash);
  wire::AppendOneText(&output_, "statements", proof + " " + request.lines);
  Ready();
}

void HookProtocol::BeginDiscard(std::size_t message_bytes) {
  discarded_message_ = message_bytes;
  const std::size_t here = std::min(message_bytes, input_.size() - consumed_);
  consumed_ += here;
  discard_bytes_ = message_bytes - here;
  if (discard_bytes_ == 0) EndDiscard();
}

void HookProtocol::EndDiscard() {
  const std::size_t write_set_bytes = discarded_message_ / 2;
  discarded_message_ = 0;
  wire::AppendError(&output_, "ERROR", WriteSetTooLarge(write_set_bytes, options_.write_set_bytes_max));
  Ready();
}

void HookProtocol::Ready() {
  state_ = State::kReady;
  wire::AppendReadyForQuery(&output_);
}

void HookProtocol::Fail(const UserError& error) {
  problem_ = error.message;
  Refuse(error);
}

void HookProtocol::Refuse(const UserError& error) {
  if (closed()) return;
  wire::AppendError(&output_, "FATAL", error);
  state_ = State::kClosed;
}

void HookProtocol::Stop(const UserError& error) {
  if (state_ == State::kReady) {
    state_ = State::kClosed;
  } else {
    Refuse(error);
  }
}

std::optional<HookRequest> HookProtocol::TakeRequest() { return std::exchange(request_, std::nullopt); }

void HookProtocol::ReplyCommitted(GlobalT global_t) {
  if (state_ != State::kBusy) return;
  // libpq keeps 63 bytes of a command's tag.
  wire::AppendCommandComplete(&output_, "PSP " + std::to_string(global_t) + " " + answer_proof_);
  Ready();
  Advance();
}

void HookProtocol::ReplyHeld(bool granted) {
  const std::string answer = granted ? "granted" : "waiting";
  ReplyText("hold", Proof(options_.token, "hold " + answer + " " + hold_hash_) + " " + answer);
}

void HookProtocol::ReplyText(std::string_view column, std::string_view value) {
  if (state_ != State::kBusy) return;
  wire::AppendOneText(&output_, column, value);
  Ready();
  Advance();
}

void HookProtocol::ReplyError(const UserError& error) {
  if (state_ != State::kBusy) return;
  wire::AppendError(&output_, "ERROR", error);
  Ready();
  Advance();
}

std::string HookProtocol::TakeOutput() { return std::exchange(output_, {}); }

}  // namespace psp::sp
