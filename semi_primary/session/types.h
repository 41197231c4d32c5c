// Messages between clients, the sessions' core and the local workers. Values.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/ids.h"
#include "common/user_error.h"
#include "proto/psp.pb.h"
#include "proto/psp_client.pb.h"

namespace psp::sp {

// Names a client's connection and how its messages are framed; only client_socket.h looks inside.
using ClientRoute = std::string;

// A client that waits for a reply, and the number of its request.
struct Waiter {
  ClientRoute route;
  std::uint64_t request_id = 0;

  friend bool operator==(const Waiter&, const Waiter&) = default;
};

// psp.transactions as a local worker found it.
struct TransactionState {
  enum class Status { kUnknown, kOpen, kRunning, kWaiting, kPending, kCommitted, kAborted };
  Status status = Status::kUnknown;
  GlobalT global_t = 0;  // kCommitted: 0: it has written nothing
  UserError reason{};    // kAborted
};

// ---- jobs for local workers: each gets one result; may be done twice -------------------------------------

struct TakeCommitRequest {
  TxId tx_id;
};
// A client's question, or its wish to abort.
struct Look {
  TxId tx_id;
  Waiter asked_by;
  bool abort = false;
};
struct Apply {
  TxId tx_id;
  GlobalT global_t = 0;
  std::vector<std::int32_t> table_ids;  // those it has written to; empty: not known
};
struct Abort {
  TxId tx_id;
  UserError reason;
};
struct ListPending {};
using Job = std::variant<TakeCommitRequest, Look, Apply, Abort, ListPending>;

// ---- their results ---------------------------------------------------------------------------------------

struct CommitRequestTaken {
  TxId tx_id;
  TransactionState state;
  // kWaiting:
  GlobalT watermark = 0;
  std::vector<GlobalT> seen;  // ascending
  std::shared_ptr<const proto::WriteSet> write_set;
};
struct CommitRequestFailed {  // the transaction is what it was
  TxId tx_id;
  UserError error;
};
struct Looked {
  TxId tx_id;
  Waiter asked_by;
  TransactionState state;
  std::optional<UserError> failed{};  // the look-up failed
};
struct ApplyTried {
  TxId tx_id;
  GlobalT global_t = 0;
  bool is_in = false;  // false: its temporary rows are lost, or it is pending: the apply worker will do it
};
struct AbortWritten {
  TxId tx_id;
};
struct PendingListed {
  std::vector<TxId> tx_ids;
};
using JobResult =
    std::variant<CommitRequestTaken, CommitRequestFailed, Looked, ApplyTried, AbortWritten, PendingListed>;

}  // namespace psp::sp
