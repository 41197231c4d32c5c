// What a backend can ask the daemon, one line of text each. Pure.
//
//   commit TOKEN TX_ID WATERMARK SEEN HEX     SEEN: comma list of global_t, or -
//   outcome TOKEN TX_ID
//   ping TOKEN
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <variant>
#include <vector>

#include "common/ids.h"
#include "common/result.h"
#include "common/user_error.h"
#include "proto/psp.pb.h"

namespace psp {

struct CommitRequest {
  TxId tx_id;
  GlobalT watermark = 0;
  std::vector<GlobalT> seen;  // ascending, all > watermark
  std::shared_ptr<const proto::WriteSet> write_set;
  std::size_t write_set_bytes = 0;
};

struct OutcomeRequest {
  TxId tx_id;
};

struct PingRequest {};

struct SetRequest {};  // SET …: what libpq sends by itself; answered, never heeded

struct EmptyRequest {};

using HookRequest = std::variant<CommitRequest, OutcomeRequest, PingRequest, SetRequest, EmptyRequest>;

// Errors: 28P01 wrong token, 08P01 malformed, 54000 too large, 0A000 no such request. Never throws on bad
// input.
Result<HookRequest, UserError> ParseRequest(std::string_view line, std::string_view token,
                                            std::size_t write_set_bytes_max);

// Takes as long whatever differs, so that the time does not tell how much of a guess was right.
bool EqualInConstantTime(std::string_view a, std::string_view b);

// The error for a write-set of more than write_set_bytes_max.
UserError WriteSetTooLarge(std::size_t bytes, std::size_t write_set_bytes_max);

}  // namespace psp
