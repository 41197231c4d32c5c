// All decisions of the semi-primary's daemon: the connection to the primary, local commits, the stream and
// the copy of a joining semi-primary. Pure: messages, requests, the apply worker's events and the time
// (monotonic microseconds) come in as arguments; what is to be done comes out as Actions. server.cc moves
// them from and to the socket and the threads, the simulation moves them in virtual time. One thread.
//
// The parts of the state are classes of their own: Connection, PrimaryChoice, StreamIntake, CopyIntake, OwnHistory, Progress,
// Submissions, TableHold and WatermarkWaits. The core joins them:
//
// Connection. When the apply worker has reported the database's position, Hello (epoch 0) is sent until
// Welcome comes. When the primary's list of epochs is on the disk, the core is *serving*: the stream is
// requested from that position, and everything open is sent again. Silence for heartbeat_timeout, or
// Welcome{say_hello}, ends the connection. Messages of another epoch are dropped.
//
// History. The stream so far and OwnHistory cover every transaction whose rows are in this database or may
// come into it. Hello lists them. A primary that lacks one of them (common/epochs.h) gets nothing from this
// SP, and nothing of that primary is applied. No transaction is added between the loss of a connection and
// the next Welcome.
//
// Own commits. A crash of PostgreSQL may take back own commits that were not on its disk. Until W has come
// past them, a transaction whose snapshot may lack one gets 40001. So no transaction commits that has not
// seen the application's earlier writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/epochs.h"
#include "common/note.h"
#include "semi_primary/apply/types.h"
#include "semi_primary/core/connection.h"
#include "semi_primary/core/copy_intake.h"
#include "semi_primary/core/core_numbers.h"
#include "semi_primary/core/own_history.h"
#include "semi_primary/core/primary_choice.h"
#include "semi_primary/core/progress.h"
#include "semi_primary/core/stream_intake.h"
#include "semi_primary/core/watermark_waits.h"
#include "semi_primary/front/local_commit.h"
#include "semi_primary/hold/table_hold.h"
#include "semi_primary/housekeeping/daemon_status.h"
#include "semi_primary/losses/lost_keys.h"
#include "semi_primary/mrv_report/mrv_outcomes.h"
#include "semi_primary/submit/submissions.h"

namespace psp::sp {

class Core {
 public:
  struct Options {
    std::string cluster_id;  // 16 bytes
    SpId sp_id = 0;
    std::string name;
    std::uint64_t incarnation = 0;  // drawn at each start of the daemon
    GlobalT watermark = 0;          // of the database, at the start
    bool joining = false;           // its copy was not complete then
    EpochStarts epochs{};           // saved in the database
    bool follows_any = false;       // also a primary that lacks the last one of them
    std::size_t addresses = 1;      // where the primary may be
    bool may_lack_own = false;      // PostgreSQL may have crashed while no daemon looked
    std::int64_t heartbeat_timeout_us = 3'000'000;
    std::int64_t commit_timeout_us = 10'000'000;
    std::int64_t disconnected_grace_us = 1'000'000;
    std::int64_t standby_lag_us = 0;
    std::size_t waiting_bytes_max = std::size_t{1} << 30;
    bool local_certification = true;
    CommitChoice logged{};  // of which transactions the log tells
  };

  // To be carried out in order within each list, `reconnect` and `go_to` first: a new connection, without the messages
  // that were queued for the old one.
  struct Actions {
    bool reconnect = false;
    std::optional<std::size_t> go_to{};      // the address to which everything else is sent from now on
    std::vector<proto::ToPrimary> messages;  // those that cannot be sent may be dropped
    std::vector<proto::ToPrimary> looks;     // to all addresses
    std::vector<ApplyStep> steps;            // for the apply worker
    bool hurry = false;                      // somebody waits for it: who has lost, a hold, psp.wait_for
    std::vector<CommitReply> replies;
    std::optional<EpochStarts> save_epochs{};   // durably; EpochsSaved tells when it is done
    std::optional<proto::LossReport> losses{};  // to be shown in place of the last one
    std::uint32_t losses_catalog = 0;           // the catalog's version that its names are of; 0: it has none
    std::vector<Note> notes;
  };

  explicit Core(const Options& options);

  // What the calls since the last TakeActions want done.
  Actions TakeActions();

  // From backends. Each gets one reply, unless it leaves.
  void OnFrontRequest(const FrontRequest& request, std::int64_t now_us);
  void Submit(const Submission& submission, std::int64_t now_us);
  void AskOutcome(Ticket ticket, const TxId& tx_id, std::int64_t now_us);
  void Hold(const HoldRequest& request, std::int64_t now_us);
  void AskReached(const ReachQuestion& question, std::int64_t now_us);
  void BackendGone(Ticket ticket);

  // The transaction for which tables are held: HoldingTransactionEnded must tell its end.
  std::optional<std::uint64_t> holding_transaction() const { return hold_.transaction(); }

  // `address`: from which it comes, of Options::addresses.
  void OnMessage(const proto::ToSemiPrimary& message, std::int64_t now_us, std::size_t address = 0);
  void OnApplyEvent(const ApplyEvent& event, std::int64_t now_us);
  // To be called several times a second.
  void OnTime(std::int64_t now_us);

  // The end of the daemon, in this order. Stop: no new commits. GiveUp: commits that still wait get 08007.
  void Stop();
  void GiveUp();
  void SendGoodbye();

  // What local transactions on MRVs have met since the last call.
  MrvReport TakeMrvReport() { return mrv_outcomes_.TakeReport(); }

  std::size_t waiting() const { return submissions_.waiting(); }
  // The daemon must end: the primary has refused this semi-primary for good, or its database is another one.
  bool fatal() const { return exit_code_ != 0; }
  // 0: not fatal. 1: refused. 2: it is another database, which an automatic restart must not take for the old
  // one.
  int exit_code() const { return exit_code_; }
  bool connected() const { return connection_.is_open(); }
  DaemonStatus Status(std::int64_t now_us) const;
  CoreNumbers Numbers(std::int64_t now_us) const;
  // Why a transaction that asks now will hardly commit, without what PostgreSQL says; empty: it may well.
  std::string WhyNoCommit(std::int64_t now_us) const;
  // The front has answered a reply to a COMMIT; for the metrics, psp.status and the log.
  void OnAnswered(const CommitEnd& end, std::int64_t now_us) { submissions_.OnAnswered(end, now_us); }

 private:
  void OnApplyStarted(const ApplyStarted& started, std::int64_t now_us);
  void OnApplyProgress(const ApplyProgress& progress, std::int64_t now_us);
  void OnLost(const TxId& tx_id, const proto::WriteSet& write_set, const Conflict* conflict,
              std::int64_t waited_us, std::int64_t now_us);
  void OnChangeLost(const proto::WriteSet& write_set);

  // One message each (core_messages.cc).
  void OnWelcome(Epoch epoch, const proto::Welcome& welcome, std::int64_t now_us);
  void OnRefused(const std::string& why, proto::Refused::Reason reason, std::int64_t now_us);
  void OnLookAnswer(const proto::ToSemiPrimary& message, std::size_t address, std::int64_t now_us);
  void OnLookRefused(const proto::Refused& refused, std::int64_t now_us);
  void OnDecision(const proto::Decision& decision, std::int64_t now_us);
  void OnReplicate(const proto::Replicate& replicate, std::int64_t now_us);
  void OnCopyChunk(const proto::CopyChunk& chunk, std::int64_t now_us);
  void OnOutcomeReply(const proto::OutcomeReply& reply, std::int64_t now_us);
  void OnAway(const proto::Away& away, std::int64_t now_us);
  void OnHeartbeatReply(const proto::HeartbeatReply& reply, std::int64_t now_us);
  void OnStandstill(const proto::HeartbeatReply& reply);

  bool AddTransaction(const proto::Transaction& transaction, ApplyStep* step, std::int64_t now_us);
  void RememberOwn(const std::string& tx_id, GlobalT global_t);
  bool AskForName(SpId sp_id, std::int64_t now_us);
  void ServeWhenEpochsAreSaved(std::int64_t now_us);
  void Disconnect(const char* why);
  // The same, and the connection stays.
  void LeavePrimary(const char* why);

  proto::ToPrimary Hello() const;
  void SendHello(std::int64_t now_us);
  void Look(std::int64_t now_us);
  // The newest epoch that this semi-primary has followed, by its history; empty: it may follow any.
  std::string Followed() const;
  void SendHeartbeat(std::int64_t now_us);
  void SendAck(std::int64_t now_us);
  void RequestStream(std::int64_t now_us);
  void Send(proto::ToPrimary message);

  // Everything that is committed up to this number is in this database or on its way into it.
  GlobalT newest_t() const { return needs_copy() ? 0 : stream_.position(); }
  bool needs_copy() const { return copy_.IsNeededAt(stream_.position()); }
  // COMMITs are refused: nothing can be applied until the cause is removed.
  bool stopped_applying() const { return trouble_.stops || stream_.has_failed(); }
  // Why nothing can commit; nothing: it can.
  std::optional<UserError> RefusalOfCommits() const;
  // On which keys local transactions are lost, for the database and for the primary.
  void TellLosses(std::int64_t now_us);
  bool lacks_own() const { return own_.IsLacking(progress_.watermark()); }
  KeyNames NamesOf(std::uint32_t table_id) const;
  std::string NameOf(SpId sp_id) const;
  // Since it has connected it has applied all that there was then.
  bool has_caught_up() const;
  std::string StateName(
      std::int64_t now_us) const;  // of psp.status, whose view adds `stopped` (docs/operating.md)
  void SetCatalog(TableCatalogPtr catalog);
  void AddNote(Note::Level level, std::string_view event, std::string text);

  const Options options_;
  MrvOutcomes mrv_outcomes_;
  LostKeys lost_keys_;
  LossCounts losses_{};
  Submissions submissions_;
  TableHold hold_;
  WatermarkWaits reach_;
  Connection connection_;
  PrimaryChoice choice_;
  StreamIntake stream_;
  CopyIntake copy_;
  OwnHistory own_;
  Progress progress_;
  bool serving_ = false;  // since Welcome: the epochs are saved, the stream is requested
  bool stopping_ = false;
  int exit_code_ = 0;
  EpochStarts epochs_;                       // as the primary told last
  std::optional<EpochStarts> saved_epochs_;  // on the disk; nothing: not known, since they are being saved
  bool follows_any_;                         // psp schema accept-loss, until the next Welcome
  std::map<SpId, std::string> sp_names_;
  TableCatalogPtr catalog_;
  ApplyTrouble trouble_;  // the apply worker's
  std::string last_error_;
  std::string reserved_;        // as the primary told last
  bool primary_lacks_ = false;  // what this or another semi-primary has, as it told last: it decides nothing
  std::string standstill_;      // why the primary decides nothing, as it told last; empty: it does
  Actions actions_;
};

}  // namespace psp::sp
