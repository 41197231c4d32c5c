// What goes between a front and the core: commits of this semi-primary's own transactions, questions about
// outcomes, what schema changes ask for, and the replies. Values.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/ids.h"
#include "common/user_error.h"
#include "proto/psp.pb.h"
#include "semi_primary/front/commit_timing.h"

namespace psp::sp {

using Ticket = std::uint64_t;  // names the waiter for a reply; 0: no waiter
using WriteSetPtr = std::shared_ptr<const proto::WriteSet>;
using KeyUsesPtr = std::shared_ptr<const proto::KeyUses>;  // null: none

// (W, seen): what a transaction could see.
struct Snapshot {
  GlobalT watermark = 0;
  std::vector<GlobalT> seen;  // ascending, all > watermark

  bool Has(GlobalT global_t) const {
    return global_t <= watermark || std::binary_search(seen.begin(), seen.end(), global_t);
  }
};

// ---- from a front: each gets one reply, unless its asker leaves -------------------------------------------

struct Submission {
  Ticket ticket = 0;
  TxId tx_id;
  Snapshot snapshot;
  WriteSetPtr write_set;
  std::size_t write_set_bytes = 0;  // with the uses
  KeyUsesPtr uses{};
  std::int64_t arrived_us = 0;  // when its request was read; 0: when it is submitted
};
struct OutcomeQuestion {
  Ticket ticket = 0;
  TxId tx_id;
};
// Before a statement of a schema change: others' writers of these tables must wait (hold/table_hold.h). Asked again until it is granted.
struct HoldRequest {
  Ticket ticket = 0;
  std::uint64_t transaction = 0;  // its xid8
  std::vector<std::uint32_t> table_ids;
  std::uint32_t timeout_ms = 0;
};
// Whether everything up to a number is applied here (core/watermark_waits.h). Asked again until it is.
struct ReachQuestion {
  Ticket ticket = 0;
  GlobalT global_t = 0;
};
struct AskerLeft {
  Ticket ticket = 0;
};
// With which statement a transaction has written a table, or taken a key of an index, last.
struct WrittenBy {
  std::uint32_t table_id = 0;  // or the guard's number
  std::int64_t query_id = 0;   // as pg_stat_statements has it
};
// Of a transaction that has lost. It gets no reply.
struct LosersStatements {
  TxId tx_id;
  std::vector<WrittenBy> statements;
};
using FrontRequest =
    std::variant<Submission, OutcomeQuestion, HoldRequest, ReachQuestion, LosersStatements, AskerLeft>;

// ---- to a front ------------------------------------------------------------------------------------------

struct Committed {
  GlobalT global_t = 0;
};
struct Outcome {
  enum class Is { kCommitted, kAborted, kForgotten };  // for good; kForgotten: nobody knows it any more
  Is is = Is::kAborted;
  GlobalT global_t = 0;
  std::optional<UserError> lost{};  // the conflict of an aborted one
};
struct Held {
  bool granted = false;  // not yet: ask again
};
struct Reached {
  bool yes = false;  // not yet: ask again
};
struct Noted {};
using FrontAnswer = std::variant<Committed, Outcome, Held, Reached, Noted, UserError>;
// Of a COMMIT, for the log.
struct CommitWho {
  TxId tx_id;
  GlobalT winner_t = 0;  // of one that has lost
  SpId winner_sp_id = 0;
};
struct CommitReply {
  Ticket ticket = 0;
  FrontAnswer answer;
  CommitTiming timing{};
  CommitWho who{};
};
// What is left of the reply when the front has answered it.
struct CommitEnd {
  explicit CommitEnd(const CommitReply& reply) : timing(reply.timing), who(reply.who) {
    if (const auto* committed = std::get_if<Committed>(&reply.answer)) global_t = committed->global_t;
    if (const auto* error = std::get_if<UserError>(&reply.answer)) sqlstate = error->sqlstate;
  }
  CommitTiming timing;
  CommitWho who;
  GlobalT global_t = 0;  // 0: not committed
  std::string sqlstate;  // of the error
};

}  // namespace psp::sp
