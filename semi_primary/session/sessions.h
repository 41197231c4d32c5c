// The life of the transactions whose commit is being requested (views mode). Pure; one thread; time comes in
// as an argument.
//
// States, and what ends each:
//   kTaking     a local worker asks the database: finished ──▶ answered; waiting ──▶ kSubmitted;
//               pending, or unknown ──▶ kAsking
//   kSubmitted  the primary is deciding: committed ──▶ kApplying; lost or refused ──▶ kAborting;
//               not decided in time (its clients are told 08007) ──▶ kAsking
//   kAsking     the primary's log is being asked: committed ──▶ kApplying; forgotten, and not known here, ──▶
//               failed; anything else ──▶ kAborting
//   kApplying   it is being applied; then it is answered COMMITTED
//   kAborting   it is answered ABORTED at once; a local worker is writing that down
//
// Invariants
// - A client is told COMMITTED or ABORTED only when every later request will be told the same: the primary
//   has decided, or psp.transactions has it, or nothing was sent to the primary and nothing ever will be.
// - A transaction that was submitted stays here until it is decided, also when no client waits.
// - A question to the primary makes the outcome definite, so it is asked only about transactions of this
//   semi-primary (ids tell where one began), and never while one may still run. The primary says so if it would
//   have forgotten the commit. But of one that is known here and not decided it has forgotten nothing, however
//   old it is: the primary keeps what it has committed until this semi-primary has it.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "semi_primary/front/local_commit.h"
#include "semi_primary/session/types.h"

namespace psp::sp {

class Sessions {
 public:
  struct Options {
    SpId sp_id = 0;
    bool wait_for_apply =
        true;  // answer COMMITTED when it can be read here, not when the primary has decided
    std::size_t write_set_bytes_max = 256 << 20;
    std::int64_t commit_timeout_us = 10'000'000;  // after which clients are told that it is not known yet
    std::size_t transactions_max = 100'000;       // under way at once, and as many questions
  };
  struct Reply {
    ClientRoute route;
    proto::ClientReply message;
  };
  struct Actions {
    std::vector<Reply> replies;
    std::vector<Job> jobs;
    std::vector<Submission> submissions;
    std::vector<OutcomeQuestion> questions;  // for the primary's log
  };

  explicit Sessions(const Options& options) : options_(options) {}

  // What the calls since the last TakeActions want done.
  Actions TakeActions() { return std::exchange(actions_, {}); }

  void OnRequest(const ClientRoute& route, const proto::ClientRequest& request, std::int64_t now_us);
  void OnJobResult(JobResult result, std::int64_t now_us);
  // What became of a submission or a question. A ticket that is not known (any more) is ignored.
  void OnCommitted(Ticket ticket, GlobalT global_t);
  void OnOutcome(Ticket ticket, const Outcome& outcome);
  void OnError(Ticket ticket, const UserError& error, std::int64_t now_us);

  // The apply worker has begun (again): from now on requests are taken, and pending transactions are looked
  // up.
  void OnApplyStarted();
  // Several times a second.
  void OnTime(std::int64_t now_us);
  // No new requests; the outcomes of transactions in doubt are not asked for again.
  void Stop() { stopping_ = true; }

  // Transactions and questions that a local worker works on.
  std::size_t jobs() const;

 private:
  enum class State { kTaking, kSubmitted, kAsking, kApplying, kAborting };
  struct WaitingClient {
    Waiter waiter;
    std::int64_t since_us = 0;
  };
  struct Entry {
    State state = State::kTaking;
    bool is_known_here = true;  // it has a row in psp.transactions, or may have one
    std::vector<WaitingClient> clients;
    Ticket ticket = 0;  // kSubmitted, kAsking
    GlobalT global_t = 0;
    UserError reason{};                // kAborting
    std::vector<std::int32_t> tables;  // that it has written to; empty: not known
    std::int64_t retry_us = 0;         // kApplying: when to try again; 0: a job is under way
  };
  using Entries = std::unordered_map<TxId, Entry>;

  void OnCommitRequest(const TxId& tx_id, const Waiter& waiter, std::int64_t now_us);
  void OnLookRequest(const TxId& tx_id, const Waiter& waiter, std::int64_t now_us, bool abort);
  void OnTaken(CommitRequestTaken taken);
  void OnLooked(const Looked& looked, std::int64_t now_us);
  void OnApplyTried(const ApplyTried& tried, std::int64_t now_us);
  void OnPending(const PendingListed& pending);

  std::optional<TransactionState> ToldAlready(const Entry& entry) const;
  bool IsOfThisSemiPrimary(const TxId& tx_id) const;
  Entry* EntryOf(Ticket ticket, TxId* tx_id);
  void Wait(Entry* entry, const Waiter& waiter, std::int64_t now_us);
  void Submit(Entry* entry, CommitRequestTaken taken, std::size_t bytes);
  void AskOutcome(const TxId& tx_id, Entry* entry);
  void AskIfOfHere(Entries::iterator found);
  void EndUnknown(Entries::iterator found, const UserError& why);
  void SetCommitted(const TxId& tx_id, Entry* entry, GlobalT global_t);
  void SetAborted(const TxId& tx_id, Entry* entry, const UserError& reason);
  void Finish(Entries::iterator found, const TransactionState& state);
  void AnswerAll(const TxId& tx_id, Entry* entry, const TransactionState& state);
  void FailAll(const TxId& tx_id, Entry* entry, const UserError& error);
  void Answer(const Waiter& waiter, const TxId& tx_id, const TransactionState& state);
  void Fail(const Waiter& waiter, std::string_view tx_id, const UserError& error);

  const Options options_;
  Entries entries_;
  std::unordered_map<Ticket, TxId> by_ticket_;
  Ticket last_ticket_ = 0;
  std::size_t looks_ = 0;  // jobs under way
  bool ready_ = false;
  bool stopping_ = false;
  Actions actions_;
};

}  // namespace psp::sp
