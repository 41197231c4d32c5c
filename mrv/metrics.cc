#include "mrv/metrics.h"

#include <utility>
#include <vector>

#include "mrv/worker_counts.h"

namespace psp::mrv {
namespace {

using enum MetricFamily::Type;

MetricFamily OfWorkers(std::string_view name, std::string_view help,
                       std::atomic<std::uint64_t> WorkerCounts::*count) {
  MetricFamily family{name, kCounter, help};
  for (const std::string_view worker : kWorkers) {
    family.Add({{"worker", std::string(worker)}}, (CountsOf(worker).*count).load());
  }
  return family;
}

}  // namespace

std::string MrvMetrics(const DaemonNumbers& daemon, bool is_serving) {
  std::vector<MetricFamily> families;
  AppendProcessMetrics(daemon, &families);
  families.push_back(
      MetricFamily{"psp_mrv_serving", kGauge, "1 while this psp-mrv adapts the values of the database."}.With(
          {}, is_serving ? 1 : 0));
  families.push_back(OfWorkers("psp_mrv_rounds_total", "Rounds of the workers.", &WorkerCounts::rounds));
  families.push_back(
      OfWorkers("psp_mrv_changes_total", "Values whose records were changed.", &WorkerCounts::changes));
  families.push_back(OfWorkers("psp_mrv_conflicts_total", "Statements that gave way to another transaction.",
                               &WorkerCounts::conflicts));
  families.push_back(OfWorkers("psp_mrv_failures_total", "Statements that failed for another reason.",
                               &WorkerCounts::failures));
  families.push_back(MetricFamily{"psp_mrv_dropped_reports_total", kCounter,
                                  "Reports of values that were dropped, since there were too many."}
                         .With({}, DroppedReports().load()));
  return RenderMetrics(families);
}

std::string MrvIllness(bool is_serving) {
  return is_serving ? ""
                    : "this psp-mrv adapts nothing: its PostgreSQL cannot be reached, has no Multi-Record "
                      "Value, or is served by another psp-mrv";
}

}  // namespace psp::mrv
