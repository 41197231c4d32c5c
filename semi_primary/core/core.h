// All decisions of the semi-primary's daemon: the connection to the primary, local commits, the stream and
// the copy of a joining semi-primary. Pure: messages, requests, the apply worker's events and the time
// (monotonic microseconds) come in as arguments; what is to be done comes out as Actions. server.cc moves
// them from and to the socket and the threads, the simulation moves them in virtual time. One thread.
//
// Connection: once the apply worker has told where the database stands, Hello (epoch 0) is said until Welcome
// comes. When the primary's list of epochs is on the disk, the stream goes on (Recover from where it stands)
// and everything open is sent again. Silence for heartbeat_timeout, or Welcome{say_hello}, begins anew.
// Messages of another epoch are dropped.
//
// History: what the stream has brought and `own_` cover every transaction whose rows are in this database or
// may come to be. Hello tells of them: a primary that does not have them (common/epochs.h) gets nothing from
// here, and nothing of it is applied. None is added between the connection's loss and the next Welcome.
//
// Own commits: a crash of PostgreSQL may take back those that were not on its disk. Until W has come past
// them, a transaction whose snapshot may lack one is told 40001: nobody commits on top of a past in which the
// application's own writes have vanished.
//
// Copy: whatever it is interrupted by, it is taken from its first row to its last or begun anew, never put
// together from parts of two.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/epochs.h"
#include "common/note.h"
#include "semi_primary/apply/stream_position.h"
#include "semi_primary/apply/types.h"
#include "semi_primary/daemon_status.h"
#include "semi_primary/mrv_outcomes.h"
#include "semi_primary/submit/submissions.h"

namespace psp {

class SemiPrimaryCore {
 public:
  struct Options {
    std::string cluster_id;  // 16 bytes
    SpId sp_id = 0;
    std::string name;
    std::uint64_t incarnation = 0;  // drawn at each start of the daemon
    GlobalT watermark = 0;          // of the database, at the start
    bool joining = false;           // its copy was not complete then
    EpochStarts epochs{};           // saved in the database
    bool may_lack_own = false;      // PostgreSQL may have crashed while no daemon looked
    std::int64_t heartbeat_timeout_us = 3'000'000;
    std::int64_t commit_timeout_us = 10'000'000;
    std::int64_t disconnected_grace_us = 1'000'000;
    std::size_t waiting_bytes_max = std::size_t{1} << 30;
    bool local_certification = true;
  };

  // To be carried out in order within each list, `reconnect` first: a new connection, and what was queued for
  // the old one is dropped.
  struct Actions {
    bool reconnect = false;
    std::vector<proto::ToPrimary> messages;  // those that cannot be sent may be dropped
    std::vector<ApplyStep> steps;            // for the apply worker
    std::vector<Submissions::Reply> replies;
    std::optional<EpochStarts> save_epochs{};  // durably; EpochsSaved tells when it is done
    std::vector<Note> notes;
  };

  explicit SemiPrimaryCore(const Options& options);

  // What the calls since the last TakeActions want done.
  Actions TakeActions();

  // From backends. Each gets one reply, unless it leaves.
  void Submit(const Submission& submission, std::int64_t now_us);
  void AskOutcome(Ticket ticket, const TxId& tx_id, std::int64_t now_us);
  void BackendGone(Ticket ticket) { submissions_.BackendGone(ticket); }

  void OnMessage(const proto::ToSemiPrimary& message, std::int64_t now_us);
  void OnApplyEvent(const ApplyEvent& event, std::int64_t now_us);
  // To be called several times a second.
  void OnTime(std::int64_t now_us);

  // The end of the daemon, in this order. Stop: no new commits. GiveUp: those that still wait get 08007.
  void Stop();
  void GiveUp();
  void SayGoodbye();

  // What local transactions on MRVs have met since the last call.
  MrvReport TakeMrvReport() { return mrv_outcomes_.Take(); }

  std::size_t waiting() const { return submissions_.waiting(); }
  // The daemon must end: the primary has refused this semi-primary for good, or its database is another one.
  bool fatal() const { return exit_code_ != 0; }
  // 1: refused; 2: the database, which a new start by itself should not take for the old one. 0: not fatal.
  int exit_code() const { return exit_code_; }
  bool connected() const { return epoch_ != 0; }
  // How long the primary remembers a decision at least, as its last Welcome told; 0: there was none.
  std::int64_t primary_remembers_ms() const { return primary_remembers_ms_; }
  DaemonStatus Status(std::int64_t now_us) const;

 private:
  // How soon the stream is asked for again when it does not come.
  static constexpr std::int64_t kRecoverAgainUs = 5'000'000;

  void OnApplyStarted(const ApplyStarted& started, std::int64_t now_us);
  void OnApplyProgress(const ApplyProgress& progress, std::int64_t now_us);

  // One message each (core_messages.cc).
  void OnWelcome(Epoch epoch, const proto::Welcome& welcome, std::int64_t now_us);
  void OnRefused(const std::string& why, proto::Refused::Reason reason);
  void OnDecision(const proto::Decision& decision, std::int64_t now_us);
  void OnReplicate(const proto::Replicate& replicate, std::int64_t now_us);
  void OnSnapshotChunk(const proto::SnapshotChunk& chunk, std::int64_t now_us);
  void OnOutcomeReply(const proto::OutcomeReply& reply, std::int64_t now_us);
  void OnHeartbeatReply(const proto::HeartbeatReply& reply, std::int64_t now_us);

  bool Take(const proto::Transaction& transaction, ApplyStep* step);
  void NoteOwn(const std::string& tx_id, GlobalT global_t);
  bool AskName(SpId sp_id, std::int64_t now_us);
  void SayHello(std::int64_t now_us);
  void SayIfAlone(std::int64_t now_us);
  void Disconnect(const char* why);
  void GoOn(std::int64_t now_us);
  void Recover(std::int64_t now_us);
  void SendHeartbeat(std::int64_t now_us);
  void Send(proto::ToPrimary message);
  void Acknowledge();
  // All that is committed up to here is in this database or on its way into it.
  GlobalT newest_t() const { return MayCopyAnew() ? 0 : position_.position(); }
  // COMMITs are refused: nothing can be applied until somebody has removed the cause.
  bool stopped_applying() const { return trouble_.stops || !stream_failure_.empty(); }
  // A crash has taken own commits, or may have, and they are not all back.
  bool lacks_own() const { return unsure_of_own_ || watermark_ < own_back_t_; }
  void ExpectOwnBack(GlobalT own_back_t);
  // Nothing in this database counts: the copy is not complete, nor will what was received make it so.
  bool MayCopyAnew() const { return joining_ && (!copy_received_ || position_.position() < complete_t_); }
  KeyNames NamesOf(std::uint32_t table_id) const;
  std::string NameOf(SpId sp_id) const;
  std::string StateName() const;
  void Say(Note::Level level, std::string text);

  void SetCatalog(TableCatalogPtr catalog);

  const Options options_;
  MrvOutcomes mrv_outcomes_;
  Submissions submissions_;
  StreamPosition position_;
  TableCatalogPtr catalog_;
  std::map<SpId, std::string> sp_names_;

  Epoch epoch_ = 0;           // 0: not connected
  bool asking_name_ = false;  // Hello was said for a name: what comes before Welcome is dropped
  bool going_on_ = false;     // since Welcome: what was open is sent
  bool stopping_ = false;
  int exit_code_ = 0;
  std::uint64_t generation_ = 0;  // of the stream; 0: the apply worker has not begun
  bool joining_ = false;
  std::int64_t copy_rows_ = -1;  // of the copy that is arriving; -1: none has begun
  bool copy_received_ = false;   // all of the table has arrived
  GlobalT complete_t_ = 0;       // it is a whole state once the stream has come here
  bool recovering_ = false;      // asked to stream again, nothing taken since
  GlobalT catch_up_t_ = 0;       // the primary's closed_t at Welcome
  EpochStarts epochs_;           // as the primary told last
  EpochStarts saved_epochs_;     // of these or older ones, on the disk
  Commits own_;                  // own transactions above W
  bool unsure_of_own_ = false;   // until the next Welcome tells how far the primary is
  GlobalT own_back_t_ = 0;       // own commits that a crash took are back when W has come here
  GlobalT watermark_ = 0;
  GlobalT durable_ = 0;
  GlobalT acked_ = -1;
  GlobalT closed_t_ = 0;
  std::int64_t behind_since_us_ = 0;
  std::int64_t heartbeat_interval_us_ = 500'000;
  std::int64_t primary_remembers_ms_ = 0;
  std::int64_t heard_us_ = 0;
  std::int64_t alone_since_us_ = 0;  // without a connection and an answer; 0: not so
  bool alone_said_ = false;
  std::int64_t hello_us_ = 0;  // 0: not said since the connection was lost
  std::int64_t heartbeat_us_ = 0;
  std::int64_t recover_us_ = 0;
  double rtt_ms_ = 0;
  std::int64_t copied_rows_ = 0;
  std::int64_t copy_rows_total_ = 0;
  ApplyTrouble trouble_;        // the apply worker's
  std::string stream_failure_;  // what the stream brought and cannot be taken
  std::string last_error_;
  Actions actions_;
};

}  // namespace psp
