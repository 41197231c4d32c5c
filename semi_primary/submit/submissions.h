// The local transactions that are submitted to the primary, and their states. Pure; one thread; time is an
// argument.
//
//   unsent ──Welcome──▶ waiting ──Decision or own marker──▶ committed (backend told; kept until applied)
//      │                   ├──conflict, error──▶ gone (backend told 40001 …)
//      │                   └──doomed, too late, backend gone──▶ answered: its decision is still open
//      └──grace over──▶ gone (08006: nothing was sent)
//
// Invariants
// - Every submission gets exactly one reply, unless its backend has gone.
// - 08006 only when nothing was sent to the primary; once sent, a missing answer is 08007.
// - A transaction that may be committed keeps its write-set here until it is aborted or applied: the backend
//   may have rolled back or died, and then the apply worker needs the rows.
// - An own marker in the stream resolves its transaction before anything later in the stream is handled. So a
//   later writer that had it in its snapshot does not count as a conflict.
// - Certify and OutcomeRequest may be sent twice; the primary's answer is the same.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "semi_primary/front/local_commit.h"
#include "semi_primary/submit/commit_log.h"
#include "semi_primary/submit/commit_times.h"
#include "semi_primary/submit/error_text.h"
#include "semi_primary/submit/local_certification.h"
#include "semi_primary/submit/pausable_clock.h"
#include "writeset/describe_key.h"

namespace psp::sp {

class Submissions {
 public:
  struct Options {
    std::int64_t commit_timeout_us = 10'000'000;     // and a microsecond for each byte of the write-set
    std::int64_t disconnected_grace_us = 1'000'000;  // how long a new commit waits for a lost primary
    std::size_t waiting_bytes_max = std::size_t{1} << 30;
    bool local_certification = true;  // false: the primary alone finds conflicts
    CommitChoice logged{};            // of which transactions the log tells
    std::string name{};               // of this semi-primary, for the log
    // Names for error texts and the log.
    std::function<KeyNames(std::uint32_t table_id)> names;
    std::function<std::string(SpId)> sp_name;
    // Called once for each local transaction that is known to be committed (lost: null) or to have lost
    // against another one on the key `lost`.
    std::function<void(const proto::WriteSet& write_set, const RowKey* lost)> on_decided =
        [](const proto::WriteSet&, const RowKey*) {};
    // Called for each local transaction that has lost, with the time since its COMMIT. `conflict`: null if it has lost to a
    // schema change.
    std::function<void(const TxId& tx_id, const proto::WriteSet& write_set, const Conflict* conflict,
                       std::int64_t waited_us, std::int64_t now_us)>
        on_lost = [](const TxId&, const proto::WriteSet&, const Conflict*, std::int64_t, std::int64_t) {};
    // Called for each local schema change that has lost because it lacked rows, or another schema change.
    std::function<void(const proto::WriteSet& write_set)> on_change_lost = [](const proto::WriteSet&) {};
  };
  struct Counters {
    std::uint64_t commits_total = 0;   // backends told committed
    std::uint64_t aborts_total = 0;    // backends told anything else
    std::uint64_t losses_total = 0;    // of these, against other transactions
    std::uint64_t in_doubt_total = 0;  // of the aborts: told that the outcome is unknown
  };

  explicit Submissions(Options options)
      : options_(std::move(options)), log_(options_.logged, options_.name, options_.sp_name) {}

  // From backends, or, in views mode, from local workers.
  void Submit(const Submission& submission, std::int64_t now_us);
  void AskOutcome(Ticket ticket, const TxId& tx_id, std::int64_t now_us);
  void BackendGone(Ticket ticket);

  // From the primary. OnOwnTransaction, OnRemoteTransaction: in stream order, own ones (markers or with rows) and remote ones alike.
  void OnConnected(std::int64_t now_us);  // Welcome: everything that is open is sent (again)
  void OnDisconnected();                  // nothing is sent until OnConnected
  // Until OnConnected, or until then, nobody has waited too long.
  void OnAway(std::int64_t now_us, std::int64_t until_us) { clock_.Pause(now_us, until_us); }
  bool is_paused(std::int64_t now_us) const { return clock_.stands(now_us); }
  // The primary is there and not ready yet: the grace begins again. (commit_timeout goes on.)
  void OnAskedToWait(std::int64_t now_us) { asked_to_wait_us_ = clock_.Time(now_us); }
  void OnDecision(const proto::Decision& decision, std::int64_t now_us);
  void OnOutcomeReply(const proto::OutcomeReply& reply);
  void OnOwnTransaction(const TxId& tx_id, GlobalT global_t);
  void OnRemoteTransaction(GlobalT global_t, const TxId& tx_id, SpId sp_id, const WriteSetPtr& write_set,
                           std::int64_t now_us);

  // From the apply worker.
  void OnApplied(GlobalT watermark, std::int64_t now_us);
  void OnStreamReset() {
    local_certification_.ForgetArrived();
    log_.OnStreamReset();
  }

  // Answers submissions that have waited too long. Call it several times a second.
  void OnTime(std::int64_t now_us);
  // Refuses submissions that were not sent and have an older snapshot.
  void RefuseUnsentBefore(GlobalT watermark);
  // Refuses submissions that were not sent, and from now on every new one.
  void Stop();

  // What to send to the backends and to the primary since the last call.
  std::vector<CommitReply> TakeReplies() { return std::exchange(replies_, {}); }
  std::vector<proto::ToPrimary> TakeMessages() { return std::exchange(messages_, {}); }

  // The front has answered what TakeReplies gave.
  void OnAnswered(const CommitEnd& end, std::int64_t now_us) {
    times_.OnAnswered(end.timing, end.global_t > 0, now_us);
    log_.OnAnswered(end, now_us);
  }
  // Lines for the log since the last call.
  std::vector<Note> TakeNotes() { return log_.TakeNotes(); }

  // An own transaction's rows; null when they are not (or no longer) known.
  WriteSetPtr WriteSetOf(const TxId& tx_id) const;

  // Backends that wait for an answer.
  std::size_t waiting() const { return by_ticket_.size(); }
  std::size_t bytes() const { return bytes_; }  // of write-sets
  const Counters& counters() const { return counters_; }
  const CommitTimes& times() const { return times_; }

 private:
  enum class State { kUnsent, kWaiting, kAnswered, kCommitted };
  struct Entry {
    State state = State::kUnsent;
    Submission submission;  // ticket 0: nobody waits any more
    std::int64_t since_us = 0;
    std::int64_t limited_since_us = 0;  // by clock_
    CommitTiming timing{};
    CommitWho who{};
    GlobalT global_t = 0;  // of a committed one
  };
  using Entries = std::unordered_map<TxId, Entry>;
  struct Question {
    TxId tx_id;
    std::int64_t limited_since_us = 0;  // by clock_
  };

  // Refuses the entries in kUnsent for which `is_refused` is true.
  void RefuseUnsent(const UserError& why, const std::function<bool(const Submission&)>& is_refused);
  void SendCertify(Entry& entry, std::int64_t now_us);
  static void NoteDecision(Entry* entry, const proto::Decision& decision, std::int64_t now_us);
  void SendLost(const Submission& submission, const Conflict& conflict);
  void SendOutcomeRequest(const TxId& tx_id);
  void Answer(Entry& entry, FrontAnswer answer);
  void AnswerLost(Entry* entry, const Conflict& conflict, std::int64_t now_us);
  // `conflict`: that it has lost; null: another reason.
  void Refuse(const Submission& submission, UserError error, std::int64_t now_us,
              const Conflict* conflict = nullptr);
  void SetCommitted(Entries::iterator found, GlobalT global_t);
  void Erase(Entries::iterator found);
  // Counts it, and tells on_decided and on_lost; what the application is told.
  UserError Lost(const Submission& submission, const Conflict& conflict, std::int64_t since_us,
                 std::int64_t now_us);
  UserError ErrorOf(const Conflict& conflict) const;

  const Options options_;
  PausableClock clock_;
  std::int64_t asked_to_wait_us_ = 0;  // on that clock, the last time
  LocalCertification local_certification_;
  Entries entries_;
  std::unordered_map<Ticket, TxId> by_ticket_;      // entries with a ticket
  std::unordered_map<Ticket, Question> questions_;  // outcome requests
  std::map<GlobalT, TxId> committed_;               // entries in kCommitted
  std::size_t bytes_ = 0;                           // of all entries' write-sets
  bool connected_ = false;
  bool stopped_ = false;
  std::vector<CommitReply> replies_;
  std::vector<proto::ToPrimary> messages_;
  Counters counters_;
  CommitTimes times_;
  CommitLog log_;
};

}  // namespace psp::sp
