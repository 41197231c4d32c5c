#include "primary/metrics.h"

#include <utility>
#include <vector>

namespace psp::primary {
namespace {

using Families = std::vector<MetricFamily>;
using enum MetricFamily::Type;

double Seconds(std::int64_t us) { return static_cast<double>(us) / kUsPerSecond; }

// A family with one sample for each semi-primary for which `value` gives one.
template <class Value>
MetricFamily OfEach(std::string_view name, MetricFamily::Type type, std::string_view help,
                    const CoreNumbers& core, Value value) {
  MetricFamily family{name, type, help};
  for (const CoreNumbers::SemiPrimary& sp : core.semi_primaries) {
    if (const std::optional<double> number = value(sp)) family.Add({{"sp", sp.name}}, *number);
  }
  return family;
}

void AppendDeciding(const PrimaryNumbers& numbers, Families* families) {
  const CoreNumbers& core = numbers.core;
  families->push_back(
      MetricFamily{"psp_can_decide", kGauge, "1 unless something keeps the primary from deciding."}.With(
          {}, core.standstill ? 0 : 1));
  MetricFamily standstill{"psp_standstill", kGauge, "1 for what keeps the primary from deciding."};
  for (const Standstill::Cause cause : kStandstillCauses) {
    standstill.Add({{"cause", NameOf(cause)}}, core.standstill == cause ? 1 : 0);
  }
  families->push_back(std::move(standstill));
  families->push_back(MetricFamily{"psp_standstill_seconds", kGauge,
                                   "For how long nothing could be decided so far; 0: it can."}
                          .With({}, Seconds(core.standstill_us)));
  families->push_back(MetricFamily{"psp_decision_stage_seconds", kHistogram,
                                   "Time of each transaction in a part of the primary."}
                          .With({{"stage", "parked"}}, core.decisions.parked())
                          .With({{"stage", "waiting"}}, core.decisions.waiting())
                          .With({{"stage", "deciding"}}, core.decisions.deciding()));
  families->push_back(
      MetricFamily{"psp_batch_transactions", kHistogram, "Transactions that are decided together."}.With(
          {}, core.decisions.batch_transactions()));
  MetricFamily decisions{"psp_decisions_total", kCounter,
                         "Decisions that were told, by semi-primary and outcome."};
  for (const CoreNumbers::SemiPrimary& sp : core.semi_primaries) {
    decisions.Add({{"sp", sp.name}, {"outcome", "committed"}}, sp.outcomes.committed);
    decisions.Add({{"sp", sp.name}, {"outcome", "lost"}}, sp.outcomes.lost);
    decisions.Add({{"sp", sp.name}, {"outcome", "refused"}}, sp.outcomes.refused);
  }
  families->push_back(std::move(decisions));
  families->push_back(MetricFamily{"psp_undecided_transactions", kGauge,
                                   "Transactions that have arrived and are not decided."}
                          .With({}, core.undecided));
  families->push_back(MetricFamily{"psp_outcome_requests_total", kCounter,
                                   "Questions of semi-primaries for the outcome of a commit in doubt."}
                          .With({}, core.decisions.outcome_requests()));
  families->push_back(MetricFamily{"psp_executor_sessions", kGauge,
                                   "PostgreSQL sessions that decide batches, by what decides in them."}
                          .With({{"certify", "module"}}, numbers.sessions_by_module)
                          .With({{"certify", "sql"}}, numbers.sessions_by_sql));
}

void AppendWaiting(const CoreNumbers& core, Families* families) {
  families->push_back(
      MetricFamily{"psp_hold_active", kGauge, "1 while a schema change lets writers of its tables wait."}
          .With({}, core.holds_tables ? 1 : 0));
  families->push_back(MetricFamily{"psp_parked_transactions", kGauge,
                                   "Transactions that wait for another semi-primary's turn to end."}
                          .With({{"by", "hold"}}, core.parked_by_hold)
                          .With({{"by", "reservation"}}, core.parked_by_reservation));
  families->push_back(MetricFamily{"psp_reservations_active", kGauge,
                                   "Reservations of keys for a semi-primary that has lost them."}
                          .With({}, core.reservations));
  families->push_back(
      OfEach("psp_reservations_total", kCounter, "Reservations that have begun.", core,
             [](const auto& sp) { return static_cast<double>(sp.reservations.reservations); }));
  families->push_back(OfEach("psp_reservations_used_total", kCounter,
                             "Reservations that ended with a commit of the lost key.", core,
                             [](const auto& sp) { return static_cast<double>(sp.reservations.used); }));
}

void AppendSemiPrimaries(const PrimaryNumbers& numbers, Families* families) {
  const CoreNumbers& core = numbers.core;
  families->push_back(OfEach("psp_semi_primary_connected", kGauge, "1 while the semi-primary is connected.",
                             core, [](const auto& sp) { return sp.is_connected ? 1.0 : 0.0; }));
  families->push_back(
      OfEach("psp_semi_primary_unacknowledged_transactions", kGauge,
             "Newest transactions that the semi-primary has not acknowledged: the log keeps them.", core,
             [](const auto& sp) {
               return sp.lacks ? std::optional(static_cast<double>(*sp.lacks)) : std::nullopt;
             }));
  families->push_back(OfEach("psp_semi_primary_round_trip_seconds", kGauge,
                             "Round trip that the semi-primary has measured; 0: not known.", core,
                             [](const auto& sp) { return Seconds(sp.rtt_us); }));
  families->push_back(OfEach("psp_semi_primary_stream_bytes", kGauge,
                             "Bytes that were sent to the semi-primary and are not applied there.", core,
                             [](const auto& sp) { return static_cast<double>(sp.stream_bytes); }));
  families->push_back(MetricFamily{"psp_semi_primary_stream_bytes_max", kGauge,
                                   "Their bound; a stream that has reached it rests."}
                          .With({}, numbers.stream_bytes_max));
}

void AppendServer(const PrimaryNumbers& numbers, Families* families) {
  const auto& log = numbers.core.log;
  MetricFamily bytes{"psp_log_bytes", kGauge, "Size of the replication log on the disk, as seen last."};
  MetricFamily oldest{"psp_log_oldest_seconds", kGauge,
                      "For how long the oldest entry of the log has been there, as seen last."};
  if (log) {
    bytes.Add({}, log->bytes);
    oldest.Add({}, static_cast<double>(log->oldest_ms) / 1000);
  }
  families->push_back(std::move(bytes));
  families->push_back(std::move(oldest));
  families->push_back(
      MetricFamily{"psp_standbys", kGauge,
                   "Synchronous standbys of the primary's PostgreSQL: how many a decision needs, how "
                   "many are connected, and how many of these follow."}
          .With({{"standbys", "required"}}, numbers.sight.copies)
          .With({{"standbys", "connected"}}, numbers.sight.connected)
          .With({{"standbys", "following"}}, numbers.sight.copied));
}

}  // namespace

std::string PrimaryMetrics(const PrimaryNumbers& numbers) {
  Families families;
  AppendDaemonMetrics(numbers.daemon, &families);
  AppendDeciding(numbers, &families);
  AppendWaiting(numbers.core, &families);
  AppendSemiPrimaries(numbers, &families);
  AppendServer(numbers, &families);
  return RenderMetrics(families);
}

std::string PrimaryIllness(const std::optional<Standstill::Reason>& standstill, bool is_stopping) {
  if (is_stopping) return "psp-primary is stopping";
  return standstill ? "the primary can decide nothing: " + ShortText(*standstill) : "";
}

}  // namespace psp::primary
