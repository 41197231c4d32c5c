#include "primary/core/request_log.h"

namespace psp::primary {
namespace {

const char* NameOf(RequestLog::ParkedFor why) {
  switch (why) {
    case RequestLog::ParkedFor::kTables:
      return "unknown_tables";
    case RequestLog::ParkedFor::kHold:
      return "hold";
    case RequestLog::ParkedFor::kReservation:
      break;
  }
  return "reservation";
}

// Without the reason's words, in which there may be a key.
void AddVerdict(const Scheduler::Decided& decided, const RequestLog::SpNames& name_of,
                std::vector<LogField>* fields) {
  const Verdict& verdict = decided.verdict;
  const bool has_lost = verdict.conflict.has_value();
  const char* const otherwise = decided.asked_to_certify ? "refused" : "aborted";
  fields->push_back(LogField::Text("outcome", verdict.global_t > 0 ? "committed"
                                              : has_lost           ? "lost"
                                                                   : otherwise));
  if (verdict.global_t > 0) {
    fields->push_back(LogField::Number("global_t", verdict.global_t));
  } else if (has_lost) {
    fields->push_back(LogField::Number("winner_t", verdict.conflict->winner_t));
    const SpId winner = verdict.conflict->winner_sp_id;
    if (winner != 0) fields->push_back(LogField::Text("winner_sp", name_of(winner)));
  } else if (decided.older_catalog) {
    fields->push_back(LogField::Text("why", "older_catalog"));
  } else if (!verdict.sqlstate.empty()) {
    fields->push_back(LogField::Text("sqlstate", verdict.sqlstate));
  }
}

}  // namespace

std::vector<LogField>& RequestLog::Add(std::string_view event, const TxId& tx_id, SpId sp_id,
                                       std::int64_t at_us) {
  Note& note = notes_.emplace_back(Note{.event = event, .fields = {}, .at_us = at_us});
  note.fields.push_back(LogField::Text("tx", tx_id.ToText()));
  note.fields.push_back(LogField::Text("sp", name_of_(sp_id)));
  return note.fields;
}

void RequestLog::OnReceived(const CertifyRequest& request) {
  if (!choice_.Follows(request.tx_id)) return;
  std::vector<LogField>& fields = Add("request_received", request.tx_id, request.sp_id, request.arrived_us);
  fields.push_back(LogField::Number("watermark", request.watermark));
  fields.push_back(LogField::Number("bytes", static_cast<std::int64_t>(request.bytes())));
}

void RequestLog::OnParked(const TxId& tx_id, SpId sp_id, ParkedFor why, std::int64_t now_us) {
  if (!choice_.Follows(tx_id)) return;
  Add("request_parked", tx_id, sp_id, now_us).push_back(LogField::Text("for", NameOf(why)));
}

void RequestLog::OnBatchSent(const Batch& batch, std::int64_t now_us) {
  if (choice_.one_in == 0) return;
  for (const BatchItem& item : batch.items) {
    if (!choice_.Follows(item.request->tx_id)) continue;
    std::vector<LogField>& fields = Add("batch_sent", item.request->tx_id, item.request->sp_id, now_us);
    fields.push_back(LogField::Number("batch", static_cast<std::int64_t>(batch.batch_id)));
    fields.push_back(LogField::Number("transactions", static_cast<std::int64_t>(batch.items.size())));
  }
}

void RequestLog::OnDecided(const Scheduler::Decided& decided, std::uint64_t batch_id, std::int64_t sent_us,
                           std::int64_t now_us) {
  const CertifyRequest& request = *decided.request;
  if (!choice_.TellsEnd(request.tx_id, now_us - request.arrived_us)) return;
  std::vector<LogField>& fields = Add("decided", request.tx_id, request.sp_id, now_us);
  AddVerdict(decided, name_of_, &fields);
  fields.push_back(LogField::Number("batch", static_cast<std::int64_t>(batch_id)));
  fields.push_back(LogField::Ms("total_ms", now_us - request.arrived_us));
  fields.push_back(LogField::Ms("parked_ms", request.admitted_us - request.arrived_us));
  fields.push_back(LogField::Ms("queue_ms", sent_us - request.admitted_us));
  fields.push_back(LogField::Ms("certify_ms", now_us - sent_us));
}

void RequestLog::OnOutcomeTold(const Scheduler::Decided& decided, std::int64_t now_us) {
  if (choice_.is_off()) return;
  AddVerdict(decided, name_of_, &Add("outcome_told", decided.request->tx_id, decided.request->sp_id, now_us));
}

void RequestLog::OnRefused(const CertifyRequest& request) {
  const std::string sp = "SP " + std::to_string(request.sp_id);
  notes_.push_back({.level = Note::Level::kWarning,
                    .text = "a transaction of " + sp + " is refused: " + request.refusal.reason,
                    .once = true,
                    .event = "request_refused",
                    .fields = {LogField::Text("tx", request.tx_id.ToText()),
                               LogField::Text("sp", name_of_(request.sp_id))}});
}

}  // namespace psp::primary
