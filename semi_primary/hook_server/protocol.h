// One backend's connection to the commit hook, without the socket: bytes in, requests and bytes out. Pure.
//
// Order: TLS if it is required, startup, password, then requests one at a time. A commit request with doubts (assemble.h) waits here
// for the rows that settle them; any other request drops it. Malformed input gets an ErrorResponse and ends
// this connection only. A write-set that is too large is read to its end, dropped and answered: a client that
// is still sending would not see an earlier answer. A long request is read elsewhere, so that nobody else waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/ids.h"
#include "common/user_error.h"
#include "semi_primary/hook_server/request.h"

namespace psp::sp {

class HookProtocol {
 public:
  struct Options {
    std::string token;
    std::string database;  // the password is LOGIN@DATABASE, LOGIN the proof of "login"
    std::size_t write_set_bytes_max = 0;
    bool tls = false;  // a client must ask for TLS before anything else
  };

  // `options` must outlive this.
  explicit HookProtocol(const Options& options) : options_(options), needs_tls_(options.tls) {}

  // Takes what the client sent. Afterwards look at TakeLongRequest, TakeRequest, TakeOutput, closed and problem.
  void Feed(std::string_view bytes);

  // A request that takes long to read: OnRead expects what ParseRequest makes of it, or ReplyError.
  std::optional<std::string> TakeLongRequest();
  void OnRead(Result<HookRequest, UserError> request);

  // The request that now waits for a reply: commit, without doubts, hold, outcome, lost or reach. The others are answered here.
  std::optional<HookRequest> TakeRequest();

  // Answers the waiting request, then goes on with what was fed meanwhile.
  void ReplyCommitted(GlobalT global_t);
  void ReplyHeld(bool granted);
  void ReplyText(std::string_view column, std::string_view value);
  void ReplyError(const UserError& error);
  // Tells the client why the connection ends, and ends it (too many connections, shutdown, a late password).
  void Refuse(const UserError& error);
  // The daemon stops. Who waits for something is told. An idle backend looks for the end of its connection before it
  // sends anything, and would see a message only.
  void Stop(const UserError& error);

  // What must be sent to the client, once.
  std::string TakeOutput();
  // True once: TLS begins behind the output of now. What is fed from now on came in TLS.
  bool TakeTlsBegin();

  bool closed() const { return state_ == State::kClosed; }
  bool authenticated() const { return state_ == State::kReady || state_ == State::kBusy; }
  // What the client did wrong; empty: nothing. For the log.
  const std::string& problem() const { return problem_; }

 private:
  enum class State { kStartup, kPassword, kReady, kBusy, kClosed };

  void Advance();
  // Each takes one message from the front of input_; false when more bytes are needed.
  bool TakeStartup();
  bool TakeMessage();
  void AnswerTlsRequest(std::uint32_t code);
  void Login(std::string_view body);
  void Query(std::string_view body);
  void OnRequest(Result<HookRequest, UserError> request);
  void Wait(HookRequest request);
  void Commit(CommitRequest request);
  void Doubts(const DoubtsRequest& request);
  void Rows(const RowsRequest& request);
  void Segment(const SegmentRequest& request);
  void Statements(const StatementsRequest& request);
  void BeginDiscard(std::size_t message_bytes);
  void EndDiscard();
  void Ready();
  void Fail(const UserError& error);

  const Options& options_;
  bool needs_tls_;
  bool begins_tls_ = false;
  State state_ = State::kStartup;
  std::string input_;
  std::size_t consumed_ = 0;           // bytes at the front of input_ that are dealt with
  std::size_t discard_bytes_ = 0;      // of an oversized message, still to come
  std::size_t discarded_message_ = 0;  // its size; 0: none is being discarded
  std::string output_;
  std::string problem_;
  std::optional<std::string> long_request_;
  std::optional<HookRequest> request_;
  std::optional<CommitRequest> doubtful_;  // waits for its rows
  std::string answer_proof_;               // of the last commit request
  std::string hold_hash_;                  // of the last hold request
};

}  // namespace psp::sp
