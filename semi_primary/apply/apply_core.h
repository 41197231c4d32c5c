// Decides what the apply worker does: which statements, in which order, and what follows from an error. Pure:
// Next() says what is to be done, the answer comes back by one of the On… functions, and then Next() is asked
// again. Until the answer, Next() says the same.
//
// Invariants
// - Data and W change in one PostgreSQL transaction, W last; steps are applied in order and nothing is
//   skipped.
// - Before a batch takes its first row lock, every own transaction in it is proven (psp.applied) to be in, or
//   proven never to come in by itself (own_commits.h). The statement that writes the rows looks for the proofs first, and
//   runs nothing if one is missing. The latter's rows are applied like remote ones. A
//   backend between decision and COMMIT therefore never meets an apply worker that waits for it while holding
//   locks.
// - Only what is applied is reported, and only what a synchronous commit has put on the disk as durable.
// - After a lost connection the worker first makes sure that this is the same database; in another one it
//   stops for good. It reads W again (PostgreSQL may have crashed and gone back), and the stream starts again
//   with the next generation. Steps of older generations are dropped.
// - It claims the database (psp.apply_session) after it has told where the database stands. So a COMMIT that
//   the claim lets pass comes after ApplyStarted to the main loop, which then knows what a crash has taken.
// - After a schema change the catalog is read again before anything is built.
// - A schema change that has rows, too, is applied segment by segment (segments.h) in one transaction. After any
//   error the next attempt begins with the first segment and the catalog that is committed.
// - What this semi-primary has and refuses rows makes way for them (psp.set_aside), when nothing smaller has helped.
// - No error of PostgreSQL is final (reaction.h). After an error that may pass, the same is tried again. Any
//   other error is reported, and the worker begins again in a new session, from the database's position.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/note.h"
#include "common/pg_errors.h"
#include "semi_primary/apply/batch.h"
#include "semi_primary/apply/batch_parts.h"
#include "semi_primary/apply/own_commits.h"
#include "semi_primary/apply/requests.h"
#include "semi_primary/apply/segments.h"
#include "semi_primary/apply/trouble.h"
#include "semi_primary/apply/types.h"

namespace psp::sp {

class ApplyCore {
 public:
  struct Options {
    bool views_mode = false;
    std::int64_t ack_interval_us = 1'000'000;
    std::int64_t conflict_grace_us = 1'000'000;  // after this time the worker gives way in no deadlock
    std::function<std::string()> time_of_day;    // for messages
  };

  ApplyCore(Options options, std::function<void(ApplyEvent)> report);

  ApplyRequest Next(std::int64_t now_us);

  void OnConnected();
  void OnPosition(PgResult<ApplyPosition> position);
  void OnClaimed(const PgResult<Done>& claimed);
  void OnCatalog(PgResult<TableCatalogPtr> catalog);
  void OnSteps(std::vector<ApplyStep> steps, std::int64_t now_us);
  void OnMissingProofs(const PgResult<std::vector<GlobalT>>& missing);
  void OnBackend(const PgResult<bool>& has_ended);
  void OnTemporaryRows(const PgResult<Done>& applied);
  void OnStatements(const PgResult<std::vector<GlobalT>>& missing, std::int64_t now_us);
  // The rows were ended by the blocker watch. They may be many: they are tried again with more time, then in smaller parts. A transaction alone is tried
  // once more without what the error's CONTEXT names, whose code may not end. Then applying stops and tells; each try has twice the time.
  void OnTookTooLong(const PgError& error);
  void OnLookAlive(const PgResult<Done>& alive);
  void OnPaused() { pause_.reset(); }

  // The worker stops: what Next() says from now on makes durable what is applied, if that is not done.
  void Stop();

  // Since when the worker has wanted the row locks of its batch, however often it gave way; 0: it wants none.
  std::int64_t wanting_since_us() const { return wanting_since_us_; }
  // Whether the watch has ended what runs. `ended_batch`: wanting_since_us of the batch that it has ended last; 0: none yet.
  bool IsEnded(std::int64_t ended_batch) const {
    return ended_batch != 0 && ended_batch == wanting_since_us_;
  }
  std::vector<Note> TakeNotes();

 private:
  enum class State { kConnect, kPosition, kClaim, kIdle, kProofs, kRows, kCatalog, kDurable, kAlive, kEnded };

  struct Refusal {
    std::string text;   // SQLSTATE and message
    bool of_statement;  // of a schema change; false: of rows, perhaps of the same transaction
  };

  bool DurableIsDue(std::int64_t now_us) const;
  void BeginBatch(std::vector<ApplyTransaction> transactions);
  void NextProof();
  void BeginPart();
  void Build();
  RunStatements BatchStatements();
  RunStatements CopyStatements() const;
  void AfterSegment();
  void AfterBatch();
  void AfterCopy();
  void GoIdle();
  void Report();

  void OnError(const PgError& error);
  void FailedByItself(const std::string& sqlstate, const std::string& message);
  // Whether the part is worth another attempt, in which what has refused its rows makes way.
  bool TrySettingAside(const std::string& sqlstate, const std::string& message);
  std::optional<SetAside> AsideStatement() const;
  // Somebody must remove the cause; `blocked_at`: see Trouble::Stops.
  void Stopped(GlobalT blocked_at, const PgError& error, std::string_view remedy);
  void CopyAgain(const std::string& sqlstate, const std::string& message);
  void BeginAgain(std::int64_t pause_ms);

  const Options options_;
  const std::function<void(ApplyEvent)> report_;
  Trouble trouble_;
  std::vector<Note> notes_;
  State state_ = State::kConnect;
  std::optional<Pause> pause_;  // before the state's request
  int losses_ = 0;              // in a row
  std::int64_t wanting_since_us_ = 0;

  // Where the database stands:
  std::uint64_t generation_ = 0;
  GlobalT watermark_ = 0;
  GlobalT durable_ = 0;
  std::int64_t durable_at_us_ = 0;
  bool joining_ = false;
  std::int64_t copied_rows_ = 0;
  std::uint64_t copy_number_ = 0;
  GlobalT complete_t_ = 0;  // while joining: the copy is a whole state once W has come here
  TableCatalogPtr catalog_;
  bool catalog_is_early_ = false;  // loaded before the copy, and with it psp_mrv.columns, was there

  // The batch, or the part of the copy:
  std::optional<OwnCommits> own_;
  std::vector<GlobalT>
      to_prove_;  // own commits that the batch takes to be in until its statements have looked
  std::vector<ApplyTransaction> transactions_;
  bool own_change_ = false;  // an own transaction among them has changed the schema
  GlobalT closed_t_ = 0;
  std::optional<ApplyStep> copy_;
  std::optional<BatchParts> parts_;
  Segments segments_;              // of the part
  bool catalog_was_read_ = false;  // for the part that is to be built
  std::vector<TableChange> changes_;
  std::vector<Refusal> refusals_;  // of the part
  int times_ended_ = 0;            // of the batch, since it took too long
  std::string advisory_locks_;     // AdvisoryLocksOf
  EndBatch end_;                   // as it was asked last
};

}  // namespace psp::sp
