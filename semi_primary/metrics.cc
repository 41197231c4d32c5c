#include "semi_primary/metrics.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>
#include <vector>

namespace psp::sp {
namespace {

using Families = std::vector<MetricFamily>;
using enum MetricFamily::Type;

// Of Core::StateName.
constexpr std::array kStates = {"streaming", "catchup",      "joining", "blocked", "retrying",
                                "paused",    "disconnected", "stopped", "failed"};

// LOSS_UNIQUE_VALUE: unique_value.
std::string NameOf(proto::LossKind kind) {
  std::string name = proto::LossKind_Name(kind).substr(5);
  std::ranges::transform(name, name.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return name;
}

void AppendState(const DaemonStatus& status, Families* families) {
  families->push_back(MetricFamily{"psp_can_commit", kGauge,
                                   "1 while transactions that write can commit at this semi-primary."}
                          .With({}, status.can_commit ? 1 : 0));
  MetricFamily state{"psp_state", kGauge, "1 for the state of this semi-primary, as in psp.status."};
  for (const char* name : kStates) state.Add({{"state", name}}, status.state == name ? 1 : 0);
  families->push_back(std::move(state));
  families->push_back(MetricFamily{"psp_round_trip_seconds", kGauge,
                                   "Round trip of the last heartbeat to the primary; 0: not known."}
                          .With({}, status.rtt_ms / 1000));
  families->push_back(MetricFamily{"psp_reserved", kGauge,
                                   "1 while others leave keys to this semi-primary, which has lost them."}
                          .With({}, status.reserved.empty() ? 0 : 1));
  families->push_back(
      MetricFamily{"psp_join_rows", kGauge,
                   "Rows of the copy that are stored, of a semi-primary that joins or has joined since "
                   "the daemon's start."}
          .With({}, status.join_rows_done));
  families->push_back(
      MetricFamily{"psp_join_rows_expected", kGauge, "Estimate of all rows of the copy."}.With(
          {}, status.join_rows_total));
}

void AppendCommits(const CoreNumbers& core, Families* families) {
  families->push_back(
      MetricFamily{"psp_commits_total", kCounter, "COMMITs that were answered: committed."}.With(
          {}, core.commits.commits_total));
  families->push_back(
      MetricFamily{"psp_aborts_total", kCounter, "COMMITs that were answered with any error."}.With(
          {}, core.commits.aborts_total));
  families->push_back(MetricFamily{"psp_in_doubt_total", kCounter,
                                   "COMMITs that were answered with an unknown outcome (08007)."}
                          .With({}, core.commits.in_doubt_total));
  MetricFamily losses{"psp_losses_total", kCounter,
                      "Transactions that have lost (40001), by what they lost on."};
  for (std::size_t kind = 0; kind < core.losses.size(); ++kind) {
    losses.Add({{"kind", NameOf(static_cast<proto::LossKind>(kind))}}, core.losses[kind]);
  }
  families->push_back(std::move(losses));
  families->push_back(MetricFamily{"psp_waiting_commits", kGauge, "COMMITs that wait for the primary."}.With(
      {}, core.status.waiting));
  families->push_back(MetricFamily{"psp_commit_seconds", kHistogram,
                                   "Time from a COMMIT's request to its answer, by outcome."}
                          .With({{"outcome", "committed"}}, core.times.committed)
                          .With({{"outcome", "aborted"}}, core.times.aborted));
  families->push_back(MetricFamily{"psp_commit_stage_seconds", kHistogram,
                                   "Parts of that time, of COMMITs that the primary decided."}
                          .With({{"stage", "check"}}, core.times.check)
                          .With({{"stage", "network"}}, core.times.network)
                          .With({{"stage", "parked"}}, core.times.parked)
                          .With({{"stage", "queue"}}, core.times.queue)
                          .With({{"stage", "certify"}}, core.times.certify)
                          .With({{"stage", "answer"}}, core.times.answer));
  families->push_back(MetricFamily{
      "psp_hold_active", kGauge, "1 while a schema change of this semi-primary lets writers at others wait."}
                          .With({}, core.holds_tables ? 1 : 0));
}

void AppendApply(const SemiPrimaryNumbers& numbers, Families* families) {
  const DaemonStatus& status = numbers.core.status;
  families->push_back(MetricFamily{"psp_applied_transaction", kGauge,
                                   "The watermark: number up to which every transaction is applied here."}
                          .With({}, status.watermark));
  families->push_back(MetricFamily{"psp_apply_lag_transactions", kGauge,
                                   "Numbers between the watermark and the newest that is closed."}
                          .With({}, std::max<GlobalT>(status.closed_t - status.watermark, 0)));
  families->push_back(MetricFamily{"psp_apply_lag_seconds", kGauge,
                                   "Since when the oldest transaction that has arrived waits to be applied."}
                          .With({}, static_cast<double>(status.lag_ms) / 1000));
  families->push_back(MetricFamily{"psp_applied_transactions_total", kCounter,
                                   "Transactions of the stream that were applied, own ones among them."}
                          .With({}, numbers.apply.transactions));
  families->push_back(
      MetricFamily{"psp_apply_batch_seconds", kHistogram,
                   "Time from the beginning of a batch until it is applied, attempts that failed "
                   "among it."}
          .With({}, numbers.apply.batch_seconds));
  families->push_back(
      MetricFamily{"psp_apply_batch_transactions", kHistogram, "Transactions that are applied together."}
          .With({}, numbers.apply.batch_transactions));
  families->push_back(MetricFamily{"psp_blockers_ended_total", kCounter,
                                   "Local transactions that were ended because they blocked remote ones."}
                          .With({}, numbers.blockers_ended));
}

}  // namespace

std::string SemiPrimaryMetrics(const SemiPrimaryNumbers& numbers) {
  Families families;
  AppendDaemonMetrics(numbers.daemon, &families);
  AppendState(numbers.core.status, &families);
  AppendCommits(numbers.core, &families);
  AppendApply(numbers, &families);
  return RenderMetrics(families);
}

}  // namespace psp::sp
