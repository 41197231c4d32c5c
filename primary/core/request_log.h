// What the log tells of single transactions at the primary. The events and their fields are in docs/operating.md, and psp
// trace reads them. Pure; one thread; times are monotonic microseconds.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/commit_choice.h"
#include "common/note.h"
#include "primary/certify/scheduler.h"
#include "primary/certify/types.h"

namespace psp::primary {

class RequestLog {
 public:
  using SpNames = std::function<std::string(SpId)>;
  enum class ParkedFor { kTables, kHold, kReservation };

  RequestLog(const CommitChoice& choice, SpNames name_of) : choice_(choice), name_of_(std::move(name_of)) {}

  void OnReceived(const CertifyRequest& request);
  void OnParked(const TxId& tx_id, SpId sp_id, ParkedFor why, std::int64_t now_us);
  void OnBatchSent(const Batch& batch, std::int64_t now_us);
  // One that an SP has asked to certify, in a batch that was sent at `sent_us`.
  void OnDecided(const Scheduler::Decided& decided, std::uint64_t batch_id, std::int64_t sent_us,
                 std::int64_t now_us);
  // To an SP that has asked; rare, so each one is told unless nothing is.
  void OnOutcomeTold(const Scheduler::Decided& decided, std::int64_t now_us);
  // One that may not commit by what it is.
  void OnRefused(const CertifyRequest& request);

  std::vector<Note> TakeNotes() { return std::exchange(notes_, {}); }

 private:
  std::vector<LogField>& Add(std::string_view event, const TxId& tx_id, SpId sp_id, std::int64_t at_us);

  const CommitChoice choice_;
  const SpNames name_of_;
  std::vector<Note> notes_;
};

}  // namespace psp::primary
