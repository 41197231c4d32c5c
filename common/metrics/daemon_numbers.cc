#include "common/metrics/daemon_numbers.h"

#include <unistd.h>

#include <cstddef>
#include <fstream>
#include <utility>

#include "common/pg_errors.h"

namespace psp {
namespace {

constexpr std::array<const char*, 4> kReactions = {"retry", "abort", "reconnect", "in_doubt"};

// 0: not known.
std::int64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t size = 0;
  std::int64_t resident = 0;
  file >> size >> resident;
  return file ? resident * sysconf(_SC_PAGESIZE) : 0;
}

MetricFamily Queues(std::string_view name, std::string_view help, const std::vector<QueueNumbers>& queues,
                    bool max) {
  MetricFamily family{name, MetricFamily::Type::kGauge, help};
  for (const QueueNumbers& queue : queues) {
    if (max && queue.max == 0) continue;
    family.Add({{"queue", queue.name}}, max ? queue.max : queue.filled);
  }
  return family;
}

}  // namespace

DaemonNumbers ReadDaemonNumbers(std::int64_t since_us, std::int64_t now_us) {
  DaemonNumbers numbers;
  numbers.version = PSP_VERSION;
  numbers.running_us = now_us - since_us;
  numbers.resident_bytes = ResidentBytes();
  for (std::size_t i = 0; i < kReactions.size(); ++i) {
    numbers.postgres_errors[i] = PgErrorsSeen(static_cast<PgReaction>(i));
  }
  return numbers;
}

void AppendProcessMetrics(const DaemonNumbers& numbers, std::vector<MetricFamily>* families) {
  using enum MetricFamily::Type;
  families->push_back(
      MetricFamily{"psp_build_info", kGauge, "Always 1; the label is the daemon's version."}.With(
          {{"version", numbers.version}}, 1));
  families->push_back(
      MetricFamily{"psp_running_seconds", kGauge, "For how long this daemon has served."}.With(
          {}, static_cast<double>(numbers.running_us) / kUsPerSecond));
  families->push_back(
      MetricFamily{"psp_resident_memory_bytes", kGauge, "Memory of the daemon that is in RAM."}.With(
          {}, numbers.resident_bytes));
  MetricFamily errors{"psp_postgres_errors_total", kCounter,
                      "Errors of the daemon's PostgreSQL sessions, by what it does about them."};
  for (std::size_t i = 0; i < kReactions.size(); ++i) {
    errors.Add({{"reaction", kReactions.at(i)}}, numbers.postgres_errors.at(i));
  }
  families->push_back(std::move(errors));
}

void AppendDaemonMetrics(const DaemonNumbers& numbers, std::vector<MetricFamily>* families) {
  using enum MetricFamily::Type;
  AppendProcessMetrics(numbers, families);
  families->push_back(
      MetricFamily{"psp_malformed_messages_total", kCounter,
                   "Messages from the network that were dropped because nobody can read them."}
          .With({}, numbers.malformed_messages));
  families->push_back(
      MetricFamily{"psp_epoch", kGauge, "Number of the run of psp-primary; 0 while not connected to it."}
          .With({}, numbers.epoch));
  families->push_back(MetricFamily{"psp_closed_transaction", kGauge,
                                   "Number up to which every transaction is known to be decided."}
                          .With({}, numbers.closed_t));
  families->push_back(
      Queues("psp_queue_bytes", "Bytes of what waits in a bounded queue.", numbers.queue_bytes, false));
  families->push_back(Queues("psp_queue_bytes_max", "The bound of that queue.", numbers.queue_bytes, true));
  families->push_back(
      Queues("psp_queue_items", "Entries that wait in a bounded queue.", numbers.queue_items, false));
  families->push_back(Queues("psp_queue_items_max", "The bound of that queue.", numbers.queue_items, true));
}

}  // namespace psp
