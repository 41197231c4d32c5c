#include "semi_primary/submit/commit_log.h"

namespace psp::sp {
namespace {

const char* OutcomeOf(const CommitEnd& end) {
  if (end.global_t > 0) return "committed";
  if (end.sqlstate == "40001") return "lost";
  if (end.sqlstate == "08007") return "in_doubt";
  return end.sqlstate == "08006" ? "not_sent" : "refused";
}

// The parts that are known make up the whole: check, the way to the primary and back, answer.
void AddParts(const CommitTiming& timing, std::int64_t now_us, std::vector<LogField>* fields) {
  fields->push_back(LogField::Ms("total_ms", now_us - timing.arrived_us));
  if (timing.sent_us == 0) return;
  fields->push_back(LogField::Ms("check_ms", timing.sent_us - timing.arrived_us));
  if (timing.decided_us == 0) return;
  fields->push_back(LogField::Ms("away_ms", timing.decided_us - timing.sent_us));
  const CommitParts parts = PartsOf(timing, now_us);
  fields->push_back(LogField::Ms("primary_parked_ms", parts.parked_us));
  fields->push_back(LogField::Ms("primary_queue_ms", parts.queue_us));
  fields->push_back(LogField::Ms("primary_certify_ms", parts.certify_us));
  fields->push_back(LogField::Ms("answer_ms", parts.answer_us));
}

}  // namespace

std::vector<LogField>& CommitLog::Add(std::string_view event, const TxId& tx_id, std::int64_t at_us) {
  Note& note = notes_.emplace_back(Note{.event = event, .fields = {}, .at_us = at_us});
  note.fields.push_back(LogField::Text("tx", tx_id.ToText()));
  note.fields.push_back(LogField::Text("sp", sp_name_));
  return note.fields;
}

void CommitLog::OnReceived(const Submission& submission, std::int64_t now_us) {
  if (!choice_.Follows(submission.tx_id)) return;
  const std::int64_t at_us = submission.arrived_us != 0 ? submission.arrived_us : now_us;
  std::vector<LogField>& fields = Add("commit_received", submission.tx_id, at_us);
  fields.push_back(LogField::Number("watermark", submission.snapshot.watermark));
  fields.push_back(LogField::Number("rows", submission.write_set->rows_size()));
  fields.push_back(LogField::Number("bytes", static_cast<std::int64_t>(submission.write_set_bytes)));
}

void CommitLog::OnSent(const TxId& tx_id, std::int64_t now_us) {
  if (choice_.Follows(tx_id)) Add("commit_sent", tx_id, now_us);
}

void CommitLog::OnAnswered(const CommitEnd& end, std::int64_t now_us) {
  const CommitWho& who = end.who;
  if (!choice_.TellsEnd(who.tx_id, now_us - end.timing.arrived_us)) return;
  std::vector<LogField>& fields = Add("commit_answered", who.tx_id, now_us);
  fields.push_back(LogField::Text("outcome", OutcomeOf(end)));
  if (end.global_t > 0) {
    fields.push_back(LogField::Number("global_t", end.global_t));
  } else {
    fields.push_back(LogField::Text("sqlstate", end.sqlstate));
  }
  if (who.winner_t > 0) {
    fields.push_back(LogField::Number("winner_t", who.winner_t));
    if (who.winner_sp_id != 0) fields.push_back(LogField::Text("winner_sp", name_of_(who.winner_sp_id)));
  }
  AddParts(end.timing, now_us, &fields);
}

void CommitLog::OnRemote(GlobalT global_t, const TxId& tx_id, SpId sp_id, std::int64_t now_us) {
  if (choice_.over_ms >= 0 || choice_.Follows(tx_id)) remote_.push_back({global_t, tx_id, sp_id, now_us});
}

void CommitLog::OnApplied(GlobalT watermark, std::int64_t now_us) {
  while (!remote_.empty() && remote_.front().global_t <= watermark) {
    const Remote one = remote_.front();
    remote_.pop_front();
    if (!choice_.TellsEnd(one.tx_id, now_us - one.arrived_us)) continue;
    std::vector<LogField>& fields = Add("applied", one.tx_id, now_us);
    fields.push_back(LogField::Text("from_sp", name_of_(one.sp_id)));
    fields.push_back(LogField::Number("global_t", one.global_t));
    fields.push_back(LogField::Ms("total_ms", now_us - one.arrived_us));
  }
}

}  // namespace psp::sp
