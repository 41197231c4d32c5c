// All decisions of the primary's daemon: which SPs are let in, what is certified, which messages are sent,
// what the log must keep. Pure: messages, results of the other threads and the time (monotonic microseconds)
// come in as arguments, and what is to be done comes out as Actions. server.cc moves them from and to sockets
// and threads, the simulation moves them in virtual time. One thread.
//
// Invariants
// - A message of an SP that is not welcomed, over another route or of another epoch changes nothing; it is
//   answered by Welcome{say_hello}.
// - Nobody is welcomed before the hearing is over, so that nothing is decided (docs/decisions/71).
// - A Decision is sent before the Replicate that contains the transaction.
// - A Hello ends the SP's stream; the next one begins with its StreamRequest.
// - A copy of the table begins after it is recorded from where on the joining SP needs the log. So the copy
//   stays valid when this daemon ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/note.h"
#include "primary/certify/batch_timing.h"
#include "primary/certify/reservations.h"
#include "primary/certify/round_trips.h"
#include "primary/certify/scheduler.h"
#include "primary/certify/table_holds.h"
#include "primary/connections/connections.h"
#include "primary/core/awaits_report.h"
#include "primary/core/core_numbers.h"
#include "primary/core/decision_counts.h"
#include "primary/core/hearing.h"
#include "primary/core/housework_schedule.h"
#include "primary/core/intake.h"
#include "primary/core/losses_report.h"
#include "primary/core/lost_key_reports.h"
#include "primary/core/presence_news.h"
#include "primary/core/request_log.h"
#include "primary/core/standstill.h"
#include "primary/publish/acknowledgements.h"
#include "primary/publish/housework.h"
#include "primary/publish/streams.h"

namespace psp::primary {

class Core {
 public:
  struct Options {
    std::int64_t heartbeat_interval_ms = 500;  // told to the SPs
    std::int64_t heartbeat_timeout_us = 3'000'000;
    std::int64_t hold_timeout_max_us = 8'000'000;
    std::int64_t housekeeping_interval_us = 1'000'000;  // acknowledgements, the registry
    std::int64_t log_truncation_interval_us = 10'000'000;
    std::int64_t sweep_interval_us = 60'000'000;  // old decisions, deleted rows and guards
    std::size_t write_set_bytes_max = 64 << 20;
    std::size_t inflight_bytes_max = 256 << 20;  // of all write-sets that are not decided
    Scheduler::Limits scheduler;
    std::int64_t batch_wait_max_us = 0;  // 0: nobody waits for others
    Standstill::Limits standstill{};
    Reservations::Options reservations;
    Streams::Limits streams;
    CommitChoice logged{};  // of which transactions the log tells
    Hearing::Options hearing{};
  };
  // Where the database stands when the daemon begins.
  struct Start {
    std::string cluster_id;  // 16 bytes
    Epoch epoch = 0;
    GlobalT closed_t = 0;
    GlobalT truncated_t = 0;
    std::vector<RegistryRow> registry;
    KnownTables tables;
    EpochStarts epochs{};              // this daemon's is the last
    Commits kept{};                    // commits that these epochs found above their beginnings
    std::vector<GlobalT> newest_ts{};  // of each epoch: the newest number when it began
  };

  struct Send {
    SpId sp_id = 0;  // 0: not known, only the route is
    std::string route;
    std::string bytes;  // a serialised ToSemiPrimary
  };
  // To be carried out in order within each list.
  struct Actions {
    std::vector<Send> sends;  // call OnUnreachable for those that cannot be sent
    std::vector<ReadLog> log_reads;
    std::vector<ReadCopy> copy_reads;
    std::vector<HouseWork> house_works;
    std::vector<Note> notes;
  };

  Core(const Options& options, Start start);

  // What the calls since the last TakeActions want done.
  Actions TakeActions();

  // From the socket. `message` may be emptied.
  void OnMessage(const std::string& route, proto::ToPrimary* message, std::int64_t now_us);
  void OnUnreachable(const Send& send);

  // For the executors: the next batch when one of them is free; nothing while none is ready, or while those that are wait for
  // others. Its result is taken in two steps, so that the next batch can start in between: PostgreSQL works while the
  // messages are written.
  std::optional<Batch> NextBatch(std::int64_t now_us);
  // Until when those that are ready wait for others; nothing: they do not, or none is ready.
  std::optional<std::int64_t> WaitUntilUs(std::int64_t now_us) const;
  Scheduler::Finished Finish(const BatchResult& result, std::int64_t now_us);
  void AnnounceDecisions(const Scheduler::Finished& finished, std::int64_t now_us);

  // Results of log_reads and copy_reads; exactly one for each.
  void OnLogChunk(const LogChunk& chunk) { AddStreamActions(streams_.OnLogChunk(chunk)); }
  void OnCopyChunk(EncodedCopyChunk chunk) { AddStreamActions(streams_.OnCopyChunk(std::move(chunk))); }

  // The housekeeper has done the work, or is too busy to take it: then the work is offered again later.
  void OnHouseReport(HouseReport report, std::int64_t now_us);
  void OnHouseWorkRefused(const HouseWork& work);

  // What the threads see now. To be called several times a second.
  void OnSight(Sight sight, std::int64_t now_us) { standstill_.OnSight(std::move(sight), now_us); }

  // To be called several times a second.
  void OnTime(std::int64_t now_us);

  // The same, when all that has arrived by then was given to OnMessage.
  void OnAllRead(std::int64_t now_us);

  // Why nothing can be decided; nothing: it can.
  std::optional<Standstill::Reason> standstill() const;
  const Hearing& hearing() const { return hearing_; }

  // From now on nothing new is certified. Transactions in flight are decided and answered.
  void Stop() { stopping_ = true; }
  // The last words of a daemon that ends for planned work, to each SP that is connected, or connects from now on. Nothing is certified
  // any more, and nobody who has been told is welcomed again over that connection.
  void SayAway(std::uint32_t limit_ms);
  // After SayAway: those that have neither answered nor become silent. Until they have, their connections must stay.
  std::vector<std::string> unaware() const;
  bool idle() const { return scheduler_.idle() && reservations_.parked() == 0; }
  std::size_t undecided() const { return scheduler_.transactions() + reservations_.parked(); }

  GlobalT closed_t() const { return streams_.closed_t(); }
  CoreNumbers Numbers(std::int64_t now_us) const;  // core_numbers.cc

 private:
  struct WaitingHello {
    std::string route;
    proto::Hello hello;
  };

  // Before the first decision.
  void Hear(const std::string& route, const proto::Hello& hello, std::int64_t now_us);
  void TakeHearing(std::int64_t now_us, std::string_view welcomed = {});

  // One message each (core_messages.cc).
  void OnHello(const std::string& route, const proto::Hello& hello, bool registry_is_fresh,
               std::int64_t now_us);
  void OnCertify(SpId sp_id, proto::Certify* message, std::int64_t now_us);
  void OnAck(SpId sp_id, GlobalT watermark);
  void OnStreamRequest(SpId sp_id, const proto::StreamRequest& request);
  void OnOutcomeRequest(SpId sp_id, const proto::OutcomeRequest& request);
  void OnHeartbeat(SpId sp_id, const proto::Heartbeat& heartbeat, std::int64_t now_us);
  void AddReservations(SpId sp_id, std::int64_t now_us, proto::HeartbeatReply* reply) const;
  void AddStandstill(std::int64_t now_us, proto::HeartbeatReply* reply) const;
  void OnHold(SpId sp_id, const proto::Hold& message);
  void OnLost(SpId sp_id, proto::Lost* message, std::int64_t now_us);
  void OnLossReport(SpId sp_id, const proto::LossReport& report);

  void EndStream(SpId sp_id);
  void EndConnection(SpId sp_id);
  void BeginJoins(std::uint64_t report_number);
  void Admit(CertifyRequest request, std::int64_t now_us);
  void Certify(CertifyRequest request);
  void CertifyParked(CertifyRequest request);
  // After what may have changed it: who need not wait any more goes on, and a hold is granted.
  void GoOnWithHolds();
  void GoOnWithReservations();
  void CountLosses(const Scheduler::Finished& finished, std::int64_t now_us);
  std::size_t undecided_bytes() const {
    return scheduler_.bytes() + waiting_bytes_ + holds_.bytes() + reservations_.bytes();
  }
  bool ParkByHold(CertifyRequest* request);
  bool ParkByReservation(CertifyRequest* request, std::int64_t now_us);
  std::string NameOf(SpId sp_id) const;
  void SendHoldReply(const HeldTables& hold, bool ended);
  void SendDecision(const Scheduler::Decided& decided, const DecisionCounts::Parts& parts);
  CoreNumbers::SemiPrimary NumbersOf(const RegisteredSp& registered) const;
  void Publish(const std::vector<Scheduler::Committed>& committed);
  void AddStreamActions(Streams::Actions actions);
  void Refuse(SpId sp_id, proto::Refused::Reason reason, const std::string& text);
  void Forget(SpId sp_id, const char* why);
  void SendTo(SpId sp_id, proto::ToSemiPrimary* message);
  void TellAway(SpId sp_id);
  void SendOver(const std::string& route, SpId sp_id, proto::ToSemiPrimary* message);
  void SendRefusal(const std::string& route, const proto::Refused& refused);
  proto::ToSemiPrimary Welcome(bool say_hello) const;
  // The report will have the returned number or a higher one.
  std::uint64_t AskHousekeeper(bool truncate_log, bool sweep);
  void AddNote(Note::Level level, std::string_view event, SpId sp_id, std::string text, bool once = false);

  const Options options_;
  const Epoch epoch_;
  GlobalT truncated_t_;
  Hearing hearing_;
  Connections connections_;
  Intake intake_;
  Scheduler scheduler_;
  RoundTrips round_trips_;
  BatchTiming batch_timing_;
  TableHolds holds_;
  Reservations reservations_;
  LossesReport losses_report_;
  Standstill standstill_;
  LostKeyReports lost_key_reports_;
  RequestLog log_;
  Streams streams_;
  Acknowledgements acknowledgements_;
  HouseworkSchedule schedule_;
  PresenceNews presence_;
  DecisionCounts decisions_;
  std::optional<LogSize> log_size_;                // as the housekeeper has seen it last
  std::int64_t now_us_ = 0;                        // the last time that was told
  std::uint64_t house_number_ = 0;                 // of the last work that the housekeeper was asked for
  AwaitsReport<WaitingHello> waiting_hellos_;      // of semi-primaries that the registry may have by now
  AwaitsReport<CertifyRequest> waiting_requests_;  // with tables that the catalog may have by now
  std::size_t waiting_bytes_ = 0;                  // of these
  std::map<SpId, std::uint64_t> waiting_joins_;    // the number of the report after which each begins
  bool stopping_ = false;
  std::uint32_t away_ms_ = 0;        // 0: Away is not said
  std::set<std::string> told_away_;  // over which routes
  Actions actions_;
};

}  // namespace psp::primary
