// What a backend can ask the daemon, one line of text each. Pure.
//
//   commit TX_ID CATALOG_VERSION WATERMARK SEEN PROOF HEX
//                                             SEEN: comma list of global_t, or -
//   doubts TX_ID                              what the commit request of just now leaves in doubt
//   rows TX_ID PROOF HEX                      the rows that settle the doubts; now it is submitted
//   segment PROOF HEX                         what these chunks of a segment leave in doubt (assemble.h)
//   statements PROOF HEX                      the statements of a client's message
//   hold PROOF HEX                            the text `TRANSACTION TIMEOUT_MS TABLE_ID,…`: other semi-primaries' writers must wait
//   outcome TX_ID ROLE PROOF
//   lost TX_ID TABLE_ID:QUERY_ID,… PROOF      with which statements a transaction that has lost wrote; QUERY_ID without a sign
//   reach GLOBAL_T                            whether everything up to it is applied: soon, or not yet
//   ping
//
// PROOF (proof.h) is of `TX_ID CATALOG_VERSION WATERMARK SEEN` and the hash of HEX's bytes; of `rows TX_ID ` and that hash;
// of `segment `, `statements ` or `hold ` and that hash; of all words before it in `outcome` and `lost`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/ids.h"
#include "common/result.h"
#include "common/user_error.h"
#include "semi_primary/front/local_commit.h"
#include "writeset/assemble.h"

namespace psp::sp {

struct CommitRequest {
  TxId tx_id;
  GlobalT watermark = 0;
  std::vector<GlobalT> seen;  // ascending, all > watermark
  AssembledWriteSet assembled;
  std::size_t write_set_bytes = 0;  // of all that was captured, key uses as well
  std::string answer_proof;         // goes with the decision
};

struct DoubtsRequest {
  TxId tx_id;
};

struct RowsRequest {
  TxId tx_id;
  std::string found;  // as SettleDoubts takes it
};

struct SegmentRequest {
  AssembledWriteSet assembled;
  std::string hash;  // of the chunks
};

struct StatementsRequest {
  std::string lines;  // the answer: DescribeStatements of the message
  std::string role;   // its number, as in the request
  std::string hash;   // of the message
};

struct HookHoldRequest {
  std::uint64_t transaction = 0;
  std::uint32_t timeout_ms = 0;
  std::vector<std::uint32_t> table_ids;
  std::string hash;  // of the text
};

struct HookOutcomeRequest {
  TxId tx_id;
  std::uint32_t role = 0;  // that asks
};

inline constexpr std::size_t kStatementsOfALoserMax = 64;
struct HookLostRequest {
  LosersStatements losers;
};

// It tells no secret and changes nothing, so it needs no proof.
struct HookReachRequest {
  GlobalT global_t = 0;
};

struct PingRequest {};

struct SetRequest {};  // SET …, which libpq sends by itself; answered, without an effect

struct EmptyRequest {};

using HookRequest = std::variant<CommitRequest, DoubtsRequest, RowsRequest, SegmentRequest, StatementsRequest,
                                 HookHoldRequest, HookOutcomeRequest, HookLostRequest, HookReachRequest,
                                 PingRequest, SetRequest, EmptyRequest>;

// Errors: 28P01 wrong proof, 08P01 malformed, 54000 too large, 42601 statements that cannot be parsed, 0A000 no such
// request. Bad input never throws.
Result<HookRequest, UserError> ParseRequest(std::string_view line, std::string_view token,
                                            std::size_t write_set_bytes_max);

// The role that asks for the statements of a message; nothing: the line is another request. For taking turns only: nothing is proven yet.
std::optional<std::uint32_t> AskingRole(std::string_view line);

// The error for a request whose content has a wrong form: 08P01. Nothing was submitted.
UserError MalformedRequest(const std::string& what);

// The error for a write-set of more than write_set_bytes_max.
UserError WriteSetTooLarge(std::size_t bytes, std::size_t write_set_bytes_max);

}  // namespace psp::sp
